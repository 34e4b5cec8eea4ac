// PolicyApi: what the master promises about throttling policies. The contract of each method is
// that of its RPC in escapement/v1/policy_service.proto; errors carry the details of
// common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see api/done.h for the answers.

#ifndef SERVICES_MASTER_API_POLICY_API_H_
#define SERVICES_MASTER_API_POLICY_API_H_

#include "escapement/v1/policy_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class PolicyApi {
 public:
  virtual ~PolicyApi() = default;

  virtual void CreatePolicy(v1::CreatePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void GetPolicy(v1::GetPolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void ListPolicies(v1::ListPoliciesRequest request,
                            Done<v1::ListPoliciesResponse> done) = 0;
  virtual void UpdatePolicy(v1::UpdatePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void DeletePolicy(v1::DeletePolicyRequest request,
                            Done<google::protobuf::Empty> done) = 0;
  virtual void PausePolicy(v1::PausePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void ResumePolicy(v1::ResumePolicyRequest request, Done<v1::ThrottlePolicy> done) = 0;
  virtual void GetPolicyUsage(v1::GetPolicyUsageRequest request, Done<v1::PolicyUsage> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_POLICY_API_H_
