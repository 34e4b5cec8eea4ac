#include "common/cron/misfire.h"

#include <algorithm>
#include <vector>

namespace escapement::cron {

MisfirePlan PlanMissed(const Timetable& timetable, const MisfirePolicy& policy, absl::Time begin,
                       absl::Time now) {
  MisfirePlan plan{.summary_to = begin, .fire_from = begin};
  const absl::Time missed_to = now - policy.threshold;
  if (begin >= missed_to) return plan;
  // One more than the bound shows whether there are occurrences for the summary.
  const std::vector<Occurrence> missed =
      timetable.EnumerateLast(begin, missed_to, policy.max_catch_up + 1);
  if (missed.empty()) return plan;
  if (missed.size() > policy.max_catch_up) plan.summary_to = missed[1].instant;
  switch (policy.action) {
    case MisfireAction::kFireAll:
      plan.fire_from = plan.summary_to;
      break;
    case MisfireAction::kFireLatest:
      plan.fire_from = missed.back().instant;
      break;
    case MisfireAction::kSkip:
      plan.fire_from = missed_to;
      break;
  }
  return plan;
}

}  // namespace escapement::cron
