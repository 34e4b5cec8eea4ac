// One unary call of an RpcTable: reads the request, passes the gate, and answers.

#ifndef COMMON_RPC_UNARY_RPC_GRPC_H_
#define COMMON_RPC_UNARY_RPC_GRPC_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/status_conversion.h"

namespace escapement {

// A call that the gate has admitted.
struct AdmittedCall {
  grpc::GenericCallbackServerContext* context;  // gRPC's, until the reactor's OnDone
  const MethodAccess* method;                   // these two outlive the call
  CallGate* gate;
  std::shared_ptr<const Caller> caller;
  MethodMetrics* metrics = nullptr;                   // may be null; outlives the call
  absl::Duration began = absl::ZeroDuration();        // metrics->Now() at its arrival
  std::shared_ptr<const void> open_stream = nullptr;  // kept by a stream while it is open

  absl::Status CheckRequest(const google::protobuf::Message& request) const {
    return gate->CheckRequest(*method, *caller, method->ResourceOf(request), request);
  }
};

// The part of a unary call that does not depend on its types. The answer finishes the call, or its
// cancellation, if that is first. Without the store an answer may never come, so neither a client
// that has gone nor a stopping server waits for it. The object keeps itself alive until gRPC is
// done with it.
class UnaryReactor : public grpc::ServerGenericBidiReactor {
 public:
  const std::shared_ptr<const Caller>& caller() const { return call_.caller; }
  // MethodAccess::ResourceOf the request; not before the method is called.
  const std::string& resource() const { return resource_; }

  // Any thread. Only the first call of Answer or Fail counts.
  template <typename Response>
  void Answer(const Response& answer) {
    if (!BeginAnswer()) return;
    NoteAnswer(absl::OkStatus());
    WriteMessage(answer, &bytes_);
    StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void Fail(const absl::Status& status) {
    if (!BeginAnswer()) return;
    NoteAnswer(status);
    Finish(ToGrpcStatus(status));
  }

  void OnCancel() final {
    if (!BeginAnswer()) return;
    Count(absl::StatusCode::kCancelled);
    Finish(ToGrpcStatus(absl::CancelledError("the call was cancelled")));
  }
  void OnDone() final { self_.reset(); }

 protected:
  explicit UnaryReactor(AdmittedCall call) : call_(std::move(call)) {}

  // Parses and checks the request. False: the call has been answered.
  bool TakeRequest(google::protobuf::Message& request) {
    if (auto read = ReadMessage(bytes_, &request); !read.ok()) return Fail(read), false;
    resource_ = call_.method->ResourceOf(request);
    if (call_.method->access().audited()) request_id_ = MethodAccess::RequestIdOf(request);
    const absl::Status allowed =
        call_.gate->CheckRequest(*call_.method, *call_.caller, resource_, request);
    if (!allowed.ok()) Fail(allowed);
    return allowed.ok();
  }

  const AdmittedCall call_;
  std::shared_ptr<UnaryReactor> self_;
  grpc::ByteBuffer bytes_;  // the request, then the answer

 private:
  void Count(absl::StatusCode code) const {
    if (call_.metrics != nullptr) call_.metrics->Answered(code, call_.began);
  }
  void NoteAnswer(const absl::Status& status) const {
    Count(status.code());
    if (call_.method->access().audited())
      call_.gate->OnAnswered(*call_.method, *call_.caller, resource_, request_id_, status);
  }

  // True once.
  bool BeginAnswer() { return !finished_.exchange(true); }

  // Set before the method is called. Only audited calls have a request ID.
  std::string resource_, request_id_;
  std::atomic<bool> finished_{false};
};

// Finishes the call with the answer, or with UNAVAILABLE if it is destroyed without one.
template <typename Response>
class UnaryAnswer {
 public:
  explicit UnaryAnswer(std::shared_ptr<UnaryReactor> call) : call_(std::move(call)) {}
  UnaryAnswer(UnaryAnswer&& other) noexcept = default;
  ~UnaryAnswer() {
    if (call_ != nullptr) call_->Fail(absl::UnavailableError("the service is stopping"));
  }

  const std::shared_ptr<const Caller>& caller() const { return call_->caller(); }
  const std::string& resource() const { return call_->resource(); }

  void operator()(const absl::Status& error) { std::exchange(call_, nullptr)->Fail(error); }
  void operator()(const absl::StatusOr<Response>& answer) {
    const auto call = std::exchange(call_, nullptr);
    answer.ok() ? call->Answer(*answer) : call->Fail(answer.status());
  }
  void operator()(const absl::StatusOr<std::unique_ptr<Response>>& answer) {
    const auto call = std::exchange(call_, nullptr);
    answer.ok() ? call->Answer(**answer) : call->Fail(answer.status());
  }

 private:
  std::shared_ptr<UnaryReactor> call_;
};

template <typename Request, typename Response, typename Method>
class UnaryRpc final : public UnaryReactor {
 public:
  static UnaryRpc* Start(AdmittedCall call, const Method& method) {
    auto rpc = std::shared_ptr<UnaryRpc>(new UnaryRpc(std::move(call), method));
    rpc->self_ = rpc;
    rpc->StartRead(&rpc->bytes_);
    return rpc.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Fail(UnreadableMessage());  // the client has sent nothing
    Request request;
    if (TakeRequest(request)) method_(std::move(request), UnaryAnswer<Response>(self_));
  }

 private:
  UnaryRpc(AdmittedCall call, const Method& method)
      : UnaryReactor(std::move(call)), method_(method) {}

  const Method& method_;  // the table's
};

}  // namespace escapement

#endif  // COMMON_RPC_UNARY_RPC_GRPC_H_
