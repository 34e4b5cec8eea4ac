#include "services/master/events/event_grpc.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "common/rpc/ordered_stream_grpc.h"
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

class IngestStream final : public OrderedStream<v1::IngestRequest, v1::IngestResponse> {
 public:
  IngestStream(EventApi& events, grpc::CallbackServerContext* context)
      : OrderedStream({.unanswered_max = kIngestOutstandingMax}), events_(events) {
    const auto& metadata = context->client_metadata();
    const auto it = metadata.find(kReturnIdsMetadata);
    options_.return_ids = it != metadata.end() && it->second == "true";
  }

 private:
  v1::IngestRequest* RequestToFill() override {
    next_ = std::make_shared<ArenaRequest>();
    return next_->request;
  }

  void Take(Turn turn) override {
    UseParentAndDefaults(next_->request);
    const std::shared_ptr<const v1::IngestRequest> batch(next_, next_->request);
    events_.IngestBatch(batch, options_,
                        [turn = std::move(turn), number = batch->batch_number()](
                            absl::StatusOr<v1::IngestResponse> response) mutable {
                          Answer(turn, number, std::move(response));
                        });
  }

  // Fills what the batch leaves out with the values of the batches before it.
  void UseParentAndDefaults(v1::IngestRequest* request) {
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

  static void Answer(Turn& turn, uint64_t batch_number,
                     absl::StatusOr<v1::IngestResponse> response) {
    const absl::Status& status = response.status();
    if (absl::IsUnavailable(status)) return turn.EndStreamNow(status);
    v1::IngestResponse answer;
    if (response.ok()) {
      answer = *std::move(response);
    } else {
      answer.set_error_code(static_cast<int32_t>(status.code()));
      answer.set_error_message(ErrorText(status.message()));
    }
    answer.set_batch_number(batch_number);
    turn.Answer(std::move(answer));
  }

  EventApi& events_;
  IngestOptions options_;
  std::shared_ptr<ArenaRequest> next_;  // the batch just read
  std::string parent_;                  // given last
  v1::Event defaults_;                  // given last
};

// The unary methods get messages, the stream gets bytes (see ordered_stream_grpc.h).
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
    return IngestStream::Start(std::make_shared<IngestStream>(events_, context));
  }

 private:
  EventApi& events_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewEventGrpc(EventApi& events) {
  return std::make_unique<EventGrpc>(events);
}

}  // namespace escapement::master
