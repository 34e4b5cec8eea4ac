// Splits a range of occurrences that a change of a schedule takes over by a misfire plan.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_MISSED_SPLIT_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_MISSED_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/cron/misfire.h"
#include "common/cron/timetable.h"

namespace escapement::master {

struct MissedSplit {
  // One record for all of them: the first one, when the last one was, and how many they are;
  // kSummaryCountMax means that there are at least so many.
  std::optional<cron::Occurrence> summary_first;
  absl::Time summary_last;
  uint64_t summary_count = 0;
  std::vector<cron::Occurrence> skipped;  // after those, one by one, ascending
  std::vector<cron::Occurrence> fired;    // after those, ascending
  // More would fire than fire_max: only the latest do, and all others are in the summary.
  bool cut = false;
};

// Splits the occurrences in [begin, end). `plan` was made for a range that begins at `begin` or
// before.
MissedSplit SplitMissed(const cron::Timetable& timetable, const cron::MisfirePlan& plan,
                        absl::Time begin, absl::Time end, size_t fire_max);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_MISSED_SPLIT_H_
