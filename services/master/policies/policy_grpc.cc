#include "services/master/policies/policy_grpc.h"

#include <grpcpp/grpcpp.h>

#include "common/rpc/unary_answer_grpc.h"
#include "escapement/v1/policy_service.grpc.pb.h"

namespace escapement::master {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class PolicyGrpc final : public v1::PolicyService::CallbackService {
 public:
  explicit PolicyGrpc(PolicyApi& policies) : policies_(policies) {}

  ServerUnaryReactor* CreatePolicy(CallbackServerContext* context,
                                   const v1::CreatePolicyRequest* request,
                                   v1::ThrottlePolicy* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.CreatePolicy(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* GetPolicy(CallbackServerContext* context, const v1::GetPolicyRequest* request,
                                v1::ThrottlePolicy* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.GetPolicy(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ListPolicies(CallbackServerContext* context,
                                   const v1::ListPoliciesRequest* request,
                                   v1::ListPoliciesResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.ListPolicies(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* UpdatePolicy(CallbackServerContext* context,
                                   const v1::UpdatePolicyRequest* request,
                                   v1::ThrottlePolicy* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.UpdatePolicy(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* DeletePolicy(CallbackServerContext* context,
                                   const v1::DeletePolicyRequest* request,
                                   google::protobuf::Empty* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.DeletePolicy(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* PausePolicy(CallbackServerContext* context,
                                  const v1::PausePolicyRequest* request,
                                  v1::ThrottlePolicy* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.PausePolicy(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ResumePolicy(CallbackServerContext* context,
                                   const v1::ResumePolicyRequest* request,
                                   v1::ThrottlePolicy* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.ResumePolicy(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* GetPolicyUsage(CallbackServerContext* context,
                                     const v1::GetPolicyUsageRequest* request,
                                     v1::PolicyUsage* response) override {
    ServerUnaryReactor* reactor = nullptr;
    policies_.GetPolicyUsage(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }

 private:
  PolicyApi& policies_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPolicyGrpc(PolicyApi& policies) {
  return std::make_unique<PolicyGrpc>(policies);
}

}  // namespace escapement::master
