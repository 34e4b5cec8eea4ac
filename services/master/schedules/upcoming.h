// Occurrences from a moment on, with a bound on the work however much is excluded. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_UPCOMING_H_
#define SERVICES_MASTER_SCHEDULES_UPCOMING_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "common/cron/timetable.h"

namespace escapement::master {

struct Upcoming {
  std::vector<cron::Occurrence> occurrences;
  bool complete = true;  // false: there may be more before `max`, but too many were excluded
};

// The first `max` occurrences at or after `from`. Of intervals and times with exclusions they are
// looked for among the first `candidates_max` (or a few hundred more) that there would be without
// these; a search of cron expressions is quick in any case.
Upcoming UpcomingOf(const cron::Timetable& timetable, absl::Time from, size_t max,
                    size_t candidates_max);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_UPCOMING_H_
