#include "common/tokens/token_grpc.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/status/errors.h"
#include "common/tokens/token_door.h"
#include "escapement/v1/token_service.pb.h"

namespace escapement {
namespace {

absl::Status TooManyUnanswered() {
  return ResourceExhausted(
      "TOO_MANY_UNANSWERED",
      absl::StrCat("more than ", kTokenStreamUnansweredMax, " messages without an answer"),
      kTokenBusyDelay);
}

// The gate treats an override on the stream as a call of this method.
const MethodAccess& OverrideMethod() {
  static const auto* const method =
      new MethodAccess(*MethodAccess::Of(*v1::OverridePolicyRequest::descriptor()
                                              ->file()
                                              ->FindServiceByName("PolicyService")
                                              ->FindMethodByName("OverridePolicy")));
  return *method;
}

class TokenStream final : public OrderedStream<v1::StreamTokensResponse> {
 public:
  TokenStream(TokenApi& tokens, AdmittedCall call)
      : OrderedStream({.unanswered_max = kTokenStreamUnansweredMax,
                       .when_full = Options::WhenFull::kEndStream,
                       .too_many = TooManyUnanswered(),
                       .join_answers = true}),
        tokens_(tokens),
        call_(std::move(call)) {
    // The gate has checked the role for the stream only.
    CHECK_GE(call_.method->access().role(), OverrideMethod().access().role());
  }

 protected:
  absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) override {
    RETURN_IF_ERROR(ReadMessage(bytes, &request_));
    RETURN_IF_ERROR(call_.CheckRequest(request_));
    switch (request_.batch_case()) {
      case v1::StreamTokensRequest::kComplete:
        tokens_.CompleteTokens(request_.complete(), Answering<v1::CompleteTokensResponse>(place));
        return absl::OkStatus();
      case v1::StreamTokensRequest::kRelease:
        tokens_.ReleaseTokens(request_.release(), Answering<v1::ReleaseTokensResponse>(place));
        return absl::OkStatus();
      case v1::StreamTokensRequest::kExtend:
        tokens_.ExtendTokens(request_.extend(), Answering<v1::ExtendTokensResponse>(place));
        return absl::OkStatus();
      case v1::StreamTokensRequest::kOverride:
        return TakeOverride(place);
      case v1::StreamTokensRequest::BATCH_NOT_SET:
        break;
    }
    return InvalidField("batch", "is required: set one of complete, release, extend, override");
  }

 private:
  template <typename Response>
  TokenApi::Done<Response> Answering(uint64_t place) {
    return [this, self = self(), place](absl::StatusOr<std::unique_ptr<Response>> response) {
      if (!response.ok()) return Answer(place, response.status());
      v1::StreamTokensResponse answer;
      answer.mutable_results()->Swap((*response)->mutable_results());
      Answer(place, std::move(answer));
    };
  }

  absl::Status TakeOverride(uint64_t place) {
    v1::OverridePolicyRequest& request = *request_.mutable_override();
    const MethodAccess& method = OverrideMethod();
    std::string resource = method.ResourceOf(request);
    auto note = [this, self = self(), resource,
                 request_id = request.request_id()](const absl::Status& status) {
      call_.gate->OnAnswered(OverrideMethod(), *call_.caller, resource, request_id, status);
    };
    const absl::Status allowed = call_.gate->CheckRequest(method, *call_.caller, resource, request);
    if (!allowed.ok()) {
      note(allowed);
      return allowed;
    }
    tokens_.OverridePolicy(
        std::move(request),
        {[this, place, note = std::move(note)](const absl::StatusOr<v1::ThrottlePolicy>& policy) {
           note(policy.status());
           if (!policy.ok()) return Answer(place, policy.status());
           v1::StreamTokensResponse answer;
           answer.add_results()->set_status(v1::TokenResult::DONE);
           Answer(place, std::move(answer));
         },
         call_.caller});
    return absl::OkStatus();
  }

  TokenApi& tokens_;
  const AdmittedCall call_;
  v1::StreamTokensRequest request_;  // reused from message to message
};

}  // namespace

void AddTokenRpcs(TokenApi& tokens, RpcTable& table) {
  table.AddUnary<v1::CompleteTokensRequest, v1::CompleteTokensResponse>(
      [&tokens](auto request, auto answer) { tokens.CompleteTokens(request, std::move(answer)); });
  table.AddUnary<v1::ReleaseTokensRequest, v1::ReleaseTokensResponse>(
      [&tokens](auto request, auto answer) { tokens.ReleaseTokens(request, std::move(answer)); });
  table.AddUnary<v1::ExtendTokensRequest, v1::ExtendTokensResponse>(
      [&tokens](auto request, auto answer) { tokens.ExtendTokens(request, std::move(answer)); });
  table.AddStream("escapement.v1.TokenService.StreamTokens", [&tokens](AdmittedCall call) {
    return TokenStream::Start(std::make_shared<TokenStream>(tokens, std::move(call)));
  });
}

}  // namespace escapement
