#include "common/tokens/token_grpc.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/unary_answer_grpc.h"
#include "common/status/errors.h"
#include "common/tokens/limits.h"
#include "escapement/v1/token_service.grpc.pb.h"

namespace escapement {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

absl::Status TooManyUnanswered() {
  return ResourceExhausted(
      "TOO_MANY_UNANSWERED",
      absl::StrCat("more than ", kTokenStreamUnansweredMax, " messages without an answer"),
      kTokenBusyDelay);
}

class TokenStream final : public OrderedStream<v1::StreamTokensResponse> {
 public:
  explicit TokenStream(TokenApi& tokens)
      : OrderedStream({.unanswered_max = kTokenStreamUnansweredMax,
                       .when_full = Options::WhenFull::kEndStream,
                       .too_many = TooManyUnanswered(),
                       .join_answers = true}),
        tokens_(tokens) {}

 protected:
  absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) override {
    if (auto parsed = ReadMessage(bytes, &request_); !parsed.ok()) return parsed;
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
      case v1::StreamTokensRequest::BATCH_NOT_SET:
        break;
    }
    return InvalidField("batch", "is required: set one of complete, release, extend");
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

  TokenApi& tokens_;
  v1::StreamTokensRequest request_;  // reused from message to message
};

// The unary methods get messages, the stream gets bytes (see stream_message_grpc.h).
template <typename Base>
using UnaryMethods = v1::TokenService::WithCallbackMethod_CompleteTokens<
    v1::TokenService::WithCallbackMethod_ReleaseTokens<
        v1::TokenService::WithCallbackMethod_ExtendTokens<Base>>>;

class Service final : public v1::TokenService::WithRawCallbackMethod_StreamTokens<
                          UnaryMethods<v1::TokenService::Service>> {
 public:
  explicit Service(TokenApi& tokens) : tokens_(tokens) {}

  ServerUnaryReactor* CompleteTokens(CallbackServerContext* context,
                                     const v1::CompleteTokensRequest* request,
                                     v1::CompleteTokensResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    tokens_.CompleteTokens(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ReleaseTokens(CallbackServerContext* context,
                                    const v1::ReleaseTokensRequest* request,
                                    v1::ReleaseTokensResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    tokens_.ReleaseTokens(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  ServerUnaryReactor* ExtendTokens(CallbackServerContext* context,
                                   const v1::ExtendTokensRequest* request,
                                   v1::ExtendTokensResponse* response) override {
    ServerUnaryReactor* reactor = nullptr;
    tokens_.ExtendTokens(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamTokens(
      CallbackServerContext* context) override {
    return TokenStream::Start(std::make_shared<TokenStream>(tokens_));
  }

 private:
  TokenApi& tokens_;
};

}  // namespace

TokenGrpc::TokenGrpc(TokenApi& tokens) : service_(std::make_unique<Service>(tokens)) {}
TokenGrpc::~TokenGrpc() = default;

}  // namespace escapement
