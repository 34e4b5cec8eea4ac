#include "services/emitter/emission/catch_up.h"

#include <algorithm>
#include <utility>

#include "services/emitter/base/options.h"

namespace escapement::emitter {

void CatchUp::OnWindow(absl::Time begin, absl::Time end, bool resumed, absl::Time now) {
  if (begin < judged_at_) return;
  judged_at_ = now;
  begin_ = begin;
  // If another owner has begun this window, it may have judged the first occurrences already, and
  // in another way.
  summaries_from_ = resumed ? end : begin;
  plans_.clear();
}

std::shared_ptr<const LatePlan> CatchUp::Find(const std::string& key) const {
  const auto it = plans_.find(key);
  return it == plans_.end() ? nullptr : it->second;
}

std::shared_ptr<const LatePlan> CatchUp::Make(std::string key, const cron::Timetable& timetable,
                                              const cron::MisfirePolicy& policy, absl::Time from) {
  auto plan = std::make_shared<LatePlan>(
      LatePlan{.misfire = cron::PlanMissed(timetable, policy, std::max(begin_, from), judged_at_),
               .summary = std::nullopt,
               .summary_from = std::max(summaries_from_, from),
               .timetable = timetable});
  if (plan->summary_from < plan->misfire.summary_to)
    plan->summary = timetable.FirstAtOrAfter(plan->summary_from);
  if (plans_.size() >= kCatchUpPlansMax) plans_.clear();
  plans_[std::move(key)] = plan;
  return plan;
}

}  // namespace escapement::emitter
