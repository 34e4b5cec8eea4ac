// PolicyService: the throttling policies of tenants. Check → decide → write → answer; every change
// is one commit (record_transaction.h).
//
// Threads: as PolicyApi. No state.

#ifndef SERVICES_MASTER_POLICIES_POLICY_SERVICE_H_
#define SERVICES_MASTER_POLICIES_POLICY_SERVICE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/policies/policy_codec.h"

namespace escapement::master {

class PolicyService final : public PolicyApi {
 public:
  // `context` outlives the service.
  explicit PolicyService(MasterContext& context) : context_(context) {}

  void CreatePolicy(v1::CreatePolicyRequest request, Done<v1::ThrottlePolicy> done) override;
  void GetPolicy(v1::GetPolicyRequest request, Done<v1::ThrottlePolicy> done) override;
  void ListPolicies(v1::ListPoliciesRequest request, Done<v1::ListPoliciesResponse> done) override;
  void UpdatePolicy(v1::UpdatePolicyRequest request, Done<v1::ThrottlePolicy> done) override;
  void DeletePolicy(v1::DeletePolicyRequest request, Done<google::protobuf::Empty> done) override;
  void PausePolicy(v1::PausePolicyRequest request, Done<v1::ThrottlePolicy> done) override;
  void ResumePolicy(v1::ResumePolicyRequest request, Done<v1::ThrottlePolicy> done) override;
  void OverridePolicy(v1::OverridePolicyRequest request, Done<v1::ThrottlePolicy> done) override;
  void ClearOverride(v1::ClearOverrideRequest request, Done<v1::ThrottlePolicy> done) override;
  void ListPolicyKeys(v1::ListPolicyKeysRequest request,
                      Done<v1::ListPolicyKeysResponse> done) override;
  void GetPolicyUsage(v1::GetPolicyUsageRequest request, Done<v1::PolicyUsage> done) override;

 private:
  MasterContext& context_;
};

// SearchPolicies: one page of a list of policies, in the order of their names.
//
// Threads: the callback runs on the context's executor.

struct PolicyQuery {
  std::string tenant;
  std::string begin;  // the policy id to begin with, or empty
  bool descending = false;
  size_t page_size = 0;
  ListFilter filter;
};

struct ShownPolicies {
  std::vector<v1::ThrottlePolicy> policies;
  std::string next;  // policy id to begin with; empty at the end
};

void SearchPolicies(MasterContext& context, PolicyQuery query,
                    absl::AnyInvocable<void(absl::StatusOr<ShownPolicies>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_SERVICE_H_
