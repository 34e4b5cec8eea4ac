#include "common/tokens/token_grpc.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_message_grpc.h"
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

// Lives until gRPC is done with it and no batch is under way: it holds itself until OnDone, each
// batch holds it.
class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static StreamReactor* Make(TokenApi& tokens) {
    auto reactor = std::shared_ptr<StreamReactor>(new StreamReactor(tokens));
    reactor->self_ = reactor;
    reactor->StartRead(&reactor->request_bytes_);
    return reactor.get();
  }

  void OnReadDone(bool ok) override {
    std::optional<uint64_t> place;
    const absl::Status parsed = ok ? ReadMessage(request_bytes_, &request_) : absl::OkStatus();
    {
      absl::MutexLock lock(&mutex_);
      if (!ok || ended_) {
        read_all_ = true;
      } else if (answers_.size() - (writing_ ? 1 : 0) >= kTokenStreamUnansweredMax) {
        // One that is being written counts as answered: the client may have it already.
        EndWith(ToGrpcStatus(TooManyUnanswered()));
      } else {
        place = first_place_ + answers_.size();
        answers_.emplace_back();
      }
    }
    if (place.has_value()) {
      if (parsed.ok()) {
        Take(*place);
      } else {
        OnAnswer(*place, parsed, nullptr);
      }
    }
    {
      // Only now, since the next message is read over this one.
      absl::MutexLock lock(&mutex_);
      reading_ = false;
    }
    Advance();
  }

  void OnWriteDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      answers_.pop_front();
      ++first_place_;
      if (!ok) EndWith(grpc::Status(grpc::StatusCode::CANCELLED, "the stream is broken"));
    }
    Advance();
  }

  void OnCancel() override {
    {
      absl::MutexLock lock(&mutex_);
      EndWith(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the client"));
    }
    Advance();
  }

  void OnDone() override { self_.reset(); }

 private:
  struct Answer {
    bool ready = false;
    absl::Status status;  // not OK: the stream ends here
    v1::StreamTokensResponse response;
  };

  explicit StreamReactor(TokenApi& tokens) : tokens_(tokens) {}

  void Take(uint64_t place) {
    switch (request_.batch_case()) {
      case v1::StreamTokensRequest::kComplete:
        return tokens_.CompleteTokens(request_.complete(),
                                      Answering<v1::CompleteTokensResponse>(place));
      case v1::StreamTokensRequest::kRelease:
        return tokens_.ReleaseTokens(request_.release(),
                                     Answering<v1::ReleaseTokensResponse>(place));
      case v1::StreamTokensRequest::kExtend:
        return tokens_.ExtendTokens(request_.extend(), Answering<v1::ExtendTokensResponse>(place));
      case v1::StreamTokensRequest::BATCH_NOT_SET:
        return OnAnswer(place,
                        InvalidField("batch", "is required: set one of complete, release, extend"),
                        nullptr);
    }
  }

  template <typename Response>
  TokenApi::Done<Response> Answering(uint64_t place) {
    return [self = self_, place](absl::StatusOr<std::unique_ptr<Response>> response) {
      self->OnAnswer(place, response.status(),
                     response.ok() ? (*response)->mutable_results() : nullptr);
    };
  }

  void OnAnswer(uint64_t place, absl::Status status,
                google::protobuf::RepeatedPtrField<v1::TokenResult>* results) {
    {
      absl::MutexLock lock(&mutex_);
      Answer& answer = answers_[place - first_place_];
      answer.ready = true;
      if (status.ok()) {
        answer.response.mutable_results()->Swap(results);
      } else {
        answer.status = std::move(status);
        failed_ = true;
      }
    }
    Advance();
  }

  // The stream ends once nothing of gRPC's is under way; the first reason stays.
  void EndWith(grpc::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!ended_) end_status_ = std::move(status);
    ended_ = true;
  }

  // Starts what can be started. gRPC's calls are made without the lock, since they may call back.
  void Advance() {
    const v1::StreamTokensResponse* write = nullptr;
    grpc::WriteOptions options;
    std::optional<grpc::Status> finish;
    bool read = false;
    {
      absl::MutexLock lock(&mutex_);
      if (finished_) return;
      const bool front_ready = !writing_ && !answers_.empty() && answers_.front().ready;
      if (front_ready && !answers_.front().status.ok())
        EndWith(ToGrpcStatus(answers_.front().status));
      const bool all_answered = read_all_ && answers_.empty();
      if ((ended_ || all_answered) && !writing_) {
        // A read that is under way is ended by Finish.
        finish = ended_ ? end_status_ : grpc::Status::OK;
        finished_ = true;
      } else if (!ended_) {
        if (front_ready) {
          write = &answers_.front().response;
          writing_ = true;
          // Another follows at once: no need to send this one by itself. The first takes the call's
          // metadata with it, and is not done before these are sent.
          if (first_place_ > 0 && answers_.size() > 1 && answers_[1].ready &&
              answers_[1].status.ok())
            options.set_buffer_hint();
        }
        if (!reading_ && !read_all_ && !failed_) reading_ = read = true;
      }
    }
    // Read first: once the write is started its end may start the next step on another thread.
    if (read) StartRead(&request_bytes_);
    if (write != nullptr) {
      WriteMessage(*write, &write_bytes_);
      StartWrite(&write_bytes_, options);
    }
    if (finish.has_value()) Finish(*finish);
  }

  TokenApi& tokens_;
  std::shared_ptr<StreamReactor> self_;
  grpc::ByteBuffer request_bytes_;   // of the read under way
  v1::StreamTokensRequest request_;  // the message just read
  grpc::ByteBuffer write_bytes_;     // of the write under way

  absl::Mutex mutex_;
  // One for each batch under way, in order; a deque's elements stay in place while others come and
  // go at its ends.
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_place_ ABSL_GUARDED_BY(mutex_) = 0;  // of answers_.front()
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;  // an answer ends the stream when its turn comes
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
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
    return StreamReactor::Make(tokens_);
  }

 private:
  TokenApi& tokens_;
};

}  // namespace

TokenGrpc::TokenGrpc(TokenApi& tokens) : service_(std::make_unique<Service>(tokens)) {}
TokenGrpc::~TokenGrpc() = default;

}  // namespace escapement
