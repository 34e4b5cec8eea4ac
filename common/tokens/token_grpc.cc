#include "common/tokens/token_grpc.h"

#include <grpcpp/grpcpp.h>

#include <memory>
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

class TokenStream final : public OrderedStream<v1::StreamTokensRequest, v1::StreamTokensResponse> {
 public:
  explicit TokenStream(TokenApi& tokens)
      : OrderedStream({.unanswered_max = kTokenStreamUnansweredMax,
                       .refuse_more = &TooManyUnanswered,
                       .join_answers = true}),
        tokens_(tokens) {}

 private:
  v1::StreamTokensRequest* RequestToFill() override { return &request_; }

  void Take(Turn turn) override {
    switch (request_.batch_case()) {
      case v1::StreamTokensRequest::kComplete:
        return tokens_.CompleteTokens(request_.complete(),
                                      AnswerInTurn<v1::CompleteTokensResponse>(std::move(turn)));
      case v1::StreamTokensRequest::kRelease:
        return tokens_.ReleaseTokens(request_.release(),
                                     AnswerInTurn<v1::ReleaseTokensResponse>(std::move(turn)));
      case v1::StreamTokensRequest::kExtend:
        return tokens_.ExtendTokens(request_.extend(),
                                    AnswerInTurn<v1::ExtendTokensResponse>(std::move(turn)));
      case v1::StreamTokensRequest::BATCH_NOT_SET:
        return turn.EndStreamInTurn(InvalidField("batch", "required"));
    }
  }

  template <typename Response>
  static TokenApi::Done<Response> AnswerInTurn(Turn turn) {
    return
        [turn = std::move(turn)](absl::StatusOr<std::unique_ptr<Response>> batch_response) mutable {
          if (!batch_response.ok()) return turn.EndStreamInTurn(batch_response.status());
          v1::StreamTokensResponse response;
          response.mutable_results()->Swap((*batch_response)->mutable_results());
          turn.Answer(std::move(response));
        };
  }

  TokenApi& tokens_;
  v1::StreamTokensRequest request_;  // the message just read
};

// The unary methods get messages, the stream gets bytes (see ordered_stream_grpc.h).
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
