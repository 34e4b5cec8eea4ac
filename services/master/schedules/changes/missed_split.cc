#include "services/master/schedules/changes/missed_split.h"

#include <algorithm>

#include "common/base/check.h"
#include "services/master/base/limits.h"

namespace escapement::master {

MissedSplit SplitMissed(const cron::Timetable& timetable, const cron::MisfirePlan& plan,
                        absl::Time begin, absl::Time end, size_t fire_max) {
  MissedSplit split;
  if (begin >= end) return split;
  const absl::Time fire_from = std::clamp(plan.fire_from, begin, end);
  absl::Time summary_to = std::clamp(plan.summary_to, begin, fire_from);
  split.fired = timetable.Enumerate(fire_from, end, fire_max + 1);
  split.cut = split.fired.size() > fire_max;
  if (split.cut) {
    split.fired = timetable.EnumerateLast(fire_from, end, fire_max);
    summary_to = split.fired.empty() ? end : split.fired.front().instant;
  } else {
    split.skipped = timetable.Enumerate(summary_to, fire_from, kMaxCatchUpMax);
  }
  const std::vector<cron::Occurrence> summary =
      timetable.Enumerate(begin, summary_to, kSummaryCountMax);
  if (summary.empty()) return split;
  split.summary_first = summary.front();
  split.summary_count = summary.size();
  if (summary.size() < kSummaryCountMax) {
    split.summary_last = summary.back().instant;
  } else {
    const std::vector<cron::Occurrence> last = timetable.EnumerateLast(begin, summary_to, 1);
    CHECK(!last.empty()) << "there is a first occurrence and no last one";
    split.summary_last = last.back().instant;
  }
  return split;
}

}  // namespace escapement::master
