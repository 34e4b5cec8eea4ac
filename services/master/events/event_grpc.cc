#include "services/master/events/event_grpc.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_message_grpc.h"
#include "common/rpc/unary_answer_grpc.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "google/protobuf/arena.h"
#include "services/master/limits.h"

namespace escapement::master {
namespace {

constexpr char kReturnIdsMetadata[] = "escapement-return-ids";

// A message and the memory of everything in it.
struct ArenaRequest {
  google::protobuf::Arena arena;
  v1::IngestRequest* request = google::protobuf::Arena::CreateMessage<v1::IngestRequest>(&arena);
};

// Lives until gRPC is done with it and no batch is under way: it holds itself until OnDone, each
// batch holds it.
class IngestReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static IngestReactor* Make(EventApi& events, grpc::CallbackServerContext* context) {
    auto reactor = std::shared_ptr<IngestReactor>(new IngestReactor(events, context));
    reactor->self_ = reactor;
    reactor->ReadNext();
    return reactor.get();
  }

  void OnReadDone(bool ok) override {
    std::shared_ptr<const v1::IngestRequest> batch;
    const absl::Status parsed = ok ? ReadMessage(next_bytes_, next_->request) : absl::OkStatus();
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok || ended_) {
        read_all_ = true;
      } else if (!parsed.ok()) {
        read_all_ = true;
        read_error_ = parsed;
      } else {
        KeepInForce(next_->request);
        batch = std::shared_ptr<const v1::IngestRequest>(next_, next_->request);
        answers_.emplace_back();
      }
    }
    if (batch != nullptr) {
      events_.IngestBatch(batch, options_,
                          [self = self_, number = batch->batch_number(), place = next_place_++](
                              absl::StatusOr<v1::IngestResponse> response) mutable {
                            self->OnAnswer(place, number, std::move(response));
                          });
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
  IngestReactor(EventApi& events, grpc::CallbackServerContext* context) : events_(events) {
    const auto& metadata = context->client_metadata();
    const auto it = metadata.find(kReturnIdsMetadata);
    options_.return_ids = it != metadata.end() && it->second == "true";
  }

  // What the batch leaves out is as in the batches before it.
  void KeepInForce(v1::IngestRequest* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request->parent().empty()) {
      request->set_parent(parent_);
    } else {
      parent_ = request->parent();
    }
    if (request->has_defaults()) {
      defaults_ = request->defaults();
    } else {
      *request->mutable_defaults() = defaults_;
    }
  }

  void OnAnswer(uint64_t place, uint64_t batch_number,
                absl::StatusOr<v1::IngestResponse> response) {
    {
      absl::MutexLock lock(&mutex_);
      CHECK_GE(place, first_place_);
      CHECK_LT(place - first_place_, answers_.size());
      v1::IngestResponse& answer = answers_[place - first_place_].emplace();
      if (response.ok()) {
        answer = *std::move(response);
      } else {
        answer.set_error_code(static_cast<int32_t>(response.status().code()));
        answer.set_error_message(ErrorText(response.status().message()));
        if (absl::IsUnavailable(response.status())) EndWith(ToGrpcStatus(response.status()));
      }
      answer.set_batch_number(batch_number);
    }
    Advance();
  }

  // The stream ends once nothing of gRPC's is under way; the first reason stays.
  void EndWith(grpc::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!ended_) end_status_ = std::move(status);
    ended_ = true;
  }

  void ReadNext() {
    next_ = std::make_shared<ArenaRequest>();
    StartRead(&next_bytes_);
  }

  // Starts what can be started. gRPC's calls are made without the lock, since they may call back.
  void Advance() {
    const v1::IngestResponse* write = nullptr;
    std::optional<grpc::Status> finish;
    bool read = false;
    {
      absl::MutexLock lock(&mutex_);
      const bool all_answered = read_all_ && answers_.empty();
      if (finished_) {
        return;
      } else if ((ended_ || all_answered) && !writing_) {
        // A read that is under way is ended by Finish.
        finish = ended_ ? end_status_ : ToGrpcStatus(read_error_);
        finished_ = true;
      } else if (!ended_) {
        if (!writing_ && !answers_.empty() && answers_.front().has_value()) {
          write = &*answers_.front();
          writing_ = true;
        }
        if (!reading_ && !read_all_ && answers_.size() < kIngestOutstandingMax)
          reading_ = read = true;
      }
    }
    // Read first: once the write is started its end may start the next step on another thread.
    if (read) ReadNext();
    if (write != nullptr) {
      WriteMessage(*write, &write_bytes_);
      StartWrite(&write_bytes_);
    }
    if (finish.has_value()) Finish(*finish);
  }

  EventApi& events_;
  IngestOptions options_;
  std::shared_ptr<IngestReactor> self_;
  // Of the read under way, or the batch just read; there is only one at a time.
  std::shared_ptr<ArenaRequest> next_;
  grpc::ByteBuffer next_bytes_;
  grpc::ByteBuffer write_bytes_;  // of the write under way
  uint64_t next_place_ = 0;

  absl::Mutex mutex_;
  std::string parent_ ABSL_GUARDED_BY(mutex_);
  v1::Event defaults_ ABSL_GUARDED_BY(mutex_);
  // One for each batch under way, in order; a deque's elements stay in place while others come and
  // go at its ends.
  std::deque<std::optional<v1::IngestResponse>> answers_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_place_ ABSL_GUARDED_BY(mutex_) = 0;  // of answers_.front()
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  // Not OK: the last message that was read cannot be parsed. The stream ends with this once the
  // batches before it are answered.
  absl::Status read_error_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

// The unary methods get messages, the stream gets bytes (see stream_message_grpc.h).
template <typename Base>
using UnaryMethods = v1::EventService::WithCallbackMethod_CreateEvent<
    v1::EventService::WithCallbackMethod_BatchCreateEvents<
        v1::EventService::WithCallbackMethod_GetEvent<
            v1::EventService::WithCallbackMethod_CancelEvent<Base>>>>;

class EventGrpc final : public v1::EventService::WithRawCallbackMethod_Ingest<
                            UnaryMethods<v1::EventService::Service>> {
 public:
  explicit EventGrpc(EventApi& events) : events_(events) {}

  grpc::ServerUnaryReactor* CreateEvent(grpc::CallbackServerContext* context,
                                        const v1::CreateEventRequest* request,
                                        v1::Event* response) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    events_.CreateEvent(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  grpc::ServerUnaryReactor* BatchCreateEvents(grpc::CallbackServerContext* context,
                                              const v1::BatchCreateEventsRequest* request,
                                              v1::BatchCreateEventsResponse* response) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    events_.BatchCreateEvents(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  grpc::ServerUnaryReactor* GetEvent(grpc::CallbackServerContext* context,
                                     const v1::GetEventRequest* request,
                                     v1::Event* response) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    events_.GetEvent(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  grpc::ServerUnaryReactor* CancelEvent(grpc::CallbackServerContext* context,
                                        const v1::CancelEventRequest* request,
                                        v1::Event* response) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    events_.CancelEvent(*request, AnswerTo(context, response, &reactor));
    return reactor;
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Ingest(
      grpc::CallbackServerContext* context) override {
    return IngestReactor::Make(events_, context);
  }

 private:
  EventApi& events_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewEventGrpc(EventApi& events) {
  return std::make_unique<EventGrpc>(events);
}

}  // namespace escapement::master
