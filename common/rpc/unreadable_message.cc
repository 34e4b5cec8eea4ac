#include "common/rpc/unreadable_message.h"

#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status.h"

namespace escapement {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

// One call. gRPC runs the batch that receives the request before the one that sends the status.
class Interceptor final : public grpc::experimental::Interceptor {
 public:
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() == nullptr)
      unreadable_ = true;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS) && unreadable_)
      methods->ModifySendStatus(ToGrpcStatus(UnreadableMessage()));
    methods->Proceed();
  }

 private:
  bool unreadable_ = false;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return info->type() == ServerRpcInfo::Type::UNARY ? new Interceptor : nullptr;
  }
};

}  // namespace

absl::Status UnreadableMessage() {
  return MakeError(absl::StatusCode::kInvalidArgument, "UNREADABLE_MESSAGE",
                   "the message cannot be parsed: it is not of the method's type, or a string in "
                   "it is not UTF-8");
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewUnreadableRequestInterceptors() {
  return std::make_unique<Factory>();
}

}  // namespace escapement
