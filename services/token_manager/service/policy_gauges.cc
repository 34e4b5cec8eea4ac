#include "services/token_manager/service/policy_gauges.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"

namespace escapement::token_manager {
namespace {

constexpr const char* kHeld = "escapement_token_manager_policy_tokens_held";
constexpr const char* kLimit = "escapement_token_manager_policy_limit";
constexpr const char* kNewest = "escapement_token_manager_policy_newest_token_seconds";
constexpr const char* kWaiting = "escapement_token_manager_policy_events_waiting";

}  // namespace

void PolicyGauges::Take(const PolicyState& policy, absl::Time now) {
  overdue_ += policy.grants.Overdue(ToMicros(now));
  oldest_ = std::min(oldest_, policy.waiting.queue().oldest_due().value_or(oldest_));
  if (policy.implicit() || !policy.named) return;
  taken_.push_back({.name = absl::StrCat("tenants/", policy.tenant, "/policies/", policy.policy_id),
                    .waiting = policy.waiting.queue().events(),
                    .held = policy.grants.held(),
                    .limit = policy.record.has_value() ? policy.record->max_concurrent() : 0,
                    .newest = policy.grants.NewestMicros()});
}

void PolicyGauges::Show(absl::Time now) {
  metrics_.oldest_waiting_seconds.Set(oldest_ < now ? absl::ToDoubleSeconds(now - oldest_) : 0);
  metrics_.holders_overdue.Set(static_cast<double>(overdue_));
  std::sort(taken_.begin(), taken_.end(), [](const Busy& a, const Busy& b) {
    return std::tie(b.waiting, b.held, a.name) < std::tie(a.waiting, a.held, b.name);
  });
  if (taken_.size() > kPolicyGaugesMax) taken_.resize(kPolicyGaugesMax);
  std::set<std::string> shown;
  for (const Busy& policy : taken_) {
    Set(policy, now);
    shown.insert(policy.name);
  }
  for (const std::string& name : shown_) {
    if (!shown.contains(name)) Remove(name);
  }
  shown_ = std::move(shown);
  taken_.clear();
  oldest_ = absl::InfiniteFuture();
  overdue_ = 0;
}

void PolicyGauges::Set(const Busy& policy, absl::Time now) {
  const MetricLabels labels = {{"policy", policy.name}};
  registry_.GetGauge(kHeld, "Tokens of a policy that are out now.", labels)
      ->Set(static_cast<double>(policy.held));
  registry_.GetGauge(kLimit, "max_concurrent of a policy; +Inf without a limit.", labels)
      ->Set(policy.limit == 0 ? std::numeric_limits<double>::infinity()
                              : static_cast<double>(policy.limit));
  registry_
      .GetGauge(kWaiting, "Events of a policy that wait for a token, of the rows in memory.",
                labels)
      ->Set(static_cast<double>(policy.waiting));
  registry_
      .GetGauge(kNewest,
                "How long ago the newest token of a policy that is out was given; 0 without one. "
                "While a policy is full and events wait, it grows only if no token comes back.",
                labels)
      ->Set(policy.newest.has_value()
                ? std::max(0.0, absl::ToDoubleSeconds(now - FromMicros(*policy.newest)))
                : 0);
}

void PolicyGauges::Remove(const std::string& name) {
  for (const char* gauge : {kHeld, kLimit, kNewest, kWaiting})
    registry_.RemoveGauge(gauge, {{"policy", name}});
}

}  // namespace escapement::token_manager
