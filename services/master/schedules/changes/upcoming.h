// Occurrences from a moment on, with a bound on the work however much is excluded. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_UPCOMING_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_UPCOMING_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "common/cron/timetable.h"

namespace escapement::master {

struct Upcoming {
  std::vector<cron::Occurrence> occurrences;
  bool complete = true;  // false: there may be more before `max`, but too many were excluded
};

// The first `max` occurrences at or after `from`. For intervals and times with exclusions, the
// search covers the first `candidates_max` occurrences (or a few hundred more) that there would be
// without exclusions. A search of cron expressions is quick in any case.
Upcoming UpcomingOf(const cron::Timetable& timetable, absl::Time from, size_t max,
                    size_t candidates_max);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_UPCOMING_H_
