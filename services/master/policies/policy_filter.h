// The `filter` of ListPolicies: conditions on names, texts, states, limits and times.
//
// Pure.

#ifndef SERVICES_MASTER_POLICIES_POLICY_FILTER_H_
#define SERVICES_MASTER_POLICIES_POLICY_FILTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/filter/filter.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

class PolicyFilter {
 public:
  // Every policy.
  PolicyFilter() = default;
  // INVALID_ARGUMENT (filter). Names without "/" are those of the tenant.
  static absl::StatusOr<PolicyFilter> Read(absl::string_view text, absl::string_view tenant);

  bool always() const { return filter_.always(); }
  bool Matches(const v1::ThrottlePolicy& policy) const;

  // Every policy that matches has an id that begins so; empty: any.
  const std::string& id_prefix() const { return id_prefix_; }

 private:
  Filter filter_;
  std::string id_prefix_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_FILTER_H_
