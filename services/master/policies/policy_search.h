// SearchPolicies: one page of a list of policies, in the order of their names.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_POLICIES_POLICY_SEARCH_H_
#define SERVICES_MASTER_POLICIES_POLICY_SEARCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/policies/policy_filter.h"

namespace escapement::master {

struct PolicyQuery {
  std::string tenant;
  std::string begin;  // the policy id to begin with, or empty
  bool descending = false;
  size_t page_size = 0;
  PolicyFilter filter;
};

struct ShownPolicies {
  std::vector<v1::ThrottlePolicy> policies;
  std::string next;  // policy id to begin with; empty at the end
};

void SearchPolicies(MasterContext& context, PolicyQuery query,
                    absl::AnyInvocable<void(absl::StatusOr<ShownPolicies>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_SEARCH_H_
