// PolicyService: the throttling policies of tenants. Check → decide → write → answer; every change
// is one commit (record_transaction.h).
//
// Threads: as PolicyApi. No state.

#ifndef SERVICES_MASTER_POLICIES_POLICY_SERVICE_H_
#define SERVICES_MASTER_POLICIES_POLICY_SERVICE_H_

#include "services/master/api/policy_api.h"
#include "services/master/base/master_context.h"

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
  void GetPolicyUsage(v1::GetPolicyUsageRequest request, Done<v1::PolicyUsage> done) override;

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_SERVICE_H_
