// Answers one unary call of a callback service from an API's Done.

#ifndef SERVICES_MASTER_UNARY_ANSWER_GRPC_H_
#define SERVICES_MASTER_UNARY_ANSWER_GRPC_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/status/statusor.h"
#include "common/rpc/status_conversion.h"

namespace escapement::master {

// Finishes the call exactly once: with the answer, or UNAVAILABLE if it is destroyed without one.
template <typename Response>
class UnaryAnswer {
 public:
  UnaryAnswer(grpc::ServerUnaryReactor* reactor, Response* response)
      : reactor_(reactor), response_(response) {}
  UnaryAnswer(UnaryAnswer&& other) noexcept
      : reactor_(std::exchange(other.reactor_, nullptr)), response_(other.response_) {}
  ~UnaryAnswer() {
    if (reactor_ != nullptr)
      reactor_->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the master is stopping"));
  }

  void operator()(absl::StatusOr<Response> answer) {
    if (answer.ok()) *response_ = *std::move(answer);
    std::exchange(reactor_, nullptr)->Finish(ToGrpcStatus(answer.status()));
  }

 private:
  grpc::ServerUnaryReactor* reactor_;
  Response* response_;
};

template <typename Response>
UnaryAnswer<Response> AnswerTo(grpc::CallbackServerContext* context, Response* response,
                               grpc::ServerUnaryReactor** reactor) {
  *reactor = context->DefaultReactor();
  return UnaryAnswer<Response>(*reactor, response);
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_UNARY_ANSWER_GRPC_H_
