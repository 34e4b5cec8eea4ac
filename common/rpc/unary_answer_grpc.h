// Answers one unary call of a callback service from a callback of an API.

#ifndef COMMON_RPC_UNARY_ANSWER_GRPC_H_
#define COMMON_RPC_UNARY_ANSWER_GRPC_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/status_conversion.h"

namespace escapement {

// The call. Its answer finishes it, or its cancellation, if that is first. Without the store an
// answer may never come, so neither a client that has gone nor a stopping server waits for it. The
// object keeps itself alive until gRPC is done with it.
template <typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<UnaryCall> Make(Response* response) {
    auto call = std::shared_ptr<UnaryCall>(new UnaryCall(response));
    call->self_ = call;
    return call;
  }

  void Answer(absl::StatusOr<Response> answer) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(finished_, true)) return;
      if (answer.ok()) *response_ = *std::move(answer);
    }
    Finish(ToGrpcStatus(answer.status()));
  }

  void OnCancel() override { Answer(absl::CancelledError("the call was cancelled")); }
  void OnDone() override { self_.reset(); }

 private:
  explicit UnaryCall(Response* response) : response_(response) {}

  std::shared_ptr<UnaryCall> self_;
  Response* const response_;  // owned by gRPC until the call is finished
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// Finishes the call with the answer, or with UNAVAILABLE if it is destroyed without one.
template <typename Response>
class UnaryAnswer {
 public:
  explicit UnaryAnswer(std::shared_ptr<UnaryCall<Response>> call) : call_(std::move(call)) {}
  UnaryAnswer(UnaryAnswer&& other) noexcept = default;
  ~UnaryAnswer() {
    if (call_ != nullptr) call_->Answer(absl::UnavailableError("the service is stopping"));
  }

  void operator()(absl::StatusOr<Response> answer) {
    std::exchange(call_, nullptr)->Answer(std::move(answer));
  }
  void operator()(absl::StatusOr<std::unique_ptr<Response>> answer) {
    const auto call = std::exchange(call_, nullptr);
    if (!answer.ok()) return call->Answer(answer.status());
    call->Answer(std::move(**answer));
  }

 private:
  std::shared_ptr<UnaryCall<Response>> call_;
};

template <typename Response>
UnaryAnswer<Response> AnswerTo(grpc::CallbackServerContext* context, Response* response,
                               grpc::ServerUnaryReactor** reactor) {
  auto call = UnaryCall<Response>::Make(response);
  *reactor = call.get();
  return UnaryAnswer<Response>(std::move(call));
}

}  // namespace escapement

#endif  // COMMON_RPC_UNARY_ANSWER_GRPC_H_
