// PolicyGauges: for each policy that is busy, its limit, its tokens out and the age of the newest,
// and its waiting events, as gauges with the label `policy`; and how old the oldest waiting event
// is.
//
// There are gauges for at most kPolicyGaugesMax policies: those with most events waiting, then
// those with most tokens out. So the number of series is bounded, and those who wait are seen.
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_SERVICE_POLICY_GAUGES_H_
#define SERVICES_TOKEN_MANAGER_SERVICE_POLICY_GAUGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {

inline constexpr size_t kPolicyGaugesMax = 100;

class PolicyGauges {
 public:
  // Both must outlive it.
  PolicyGauges(Metrics& registry, TokenManagerMetrics& metrics)
      : registry_(registry), metrics_(metrics) {}

  // Takes one busy policy; after all of them, Show sets the gauges.
  void Take(const PolicyState& policy, absl::Time now);
  void Show(absl::Time now);

 private:
  struct Busy {
    std::string name;  // tenants/{tenant}/policies/{policy}
    uint64_t waiting = 0;
    uint64_t held = 0;
    uint64_t limit = 0;                            // 0: none
    std::optional<int64_t> newest = std::nullopt;  // when the newest token that is out was given
  };
  void Set(const Busy& policy, absl::Time now);
  void Remove(const std::string& name);

  Metrics& registry_;
  TokenManagerMetrics& metrics_;
  std::vector<Busy> taken_;
  absl::Time oldest_ = absl::InfiniteFuture();
  uint64_t overdue_ = 0;
  std::set<std::string> shown_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SERVICE_POLICY_GAUGES_H_
