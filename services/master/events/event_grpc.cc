#include "services/master/events/event_grpc.h"

#include <grpcpp/grpcpp.h>

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

class IngestStream final : public OrderedStream<v1::IngestResponse> {
 public:
  IngestStream(EventApi& events, grpc::CallbackServerContext* context)
      : OrderedStream({.unanswered_max = kIngestOutstandingMax}), events_(events) {
    const auto& metadata = context->client_metadata();
    const auto it = metadata.find(kReturnIdsMetadata);
    ingest_options_.return_ids = it != metadata.end() && it->second == "true";
  }

 protected:
  absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) override {
    auto memory = std::make_shared<ArenaRequest>();
    if (auto parsed = ReadMessage(bytes, memory->request); !parsed.ok()) return parsed;
    FillFromEarlierBatches(*memory->request);
    const std::shared_ptr<const v1::IngestRequest> batch(memory, memory->request);
    events_.IngestBatch(batch, ingest_options_,
                        [this, self = self(), place, number = batch->batch_number()](
                            absl::StatusOr<v1::IngestResponse> response) {
                          AnswerBatch(place, number, std::move(response));
                        });
    return absl::OkStatus();
  }

 private:
  // A parent or defaults that the batch leaves out are those of the last batch that had them.
  void FillFromEarlierBatches(v1::IngestRequest& request) {
    if (request.parent().empty()) {
      request.set_parent(parent_);
    } else {
      parent_ = request.parent();
    }
    if (request.has_defaults()) {
      defaults_ = request.defaults();
    } else {
      *request.mutable_defaults() = defaults_;
    }
  }

  // The error of one batch is a part of its answer; the stream goes on. Without the store it ends.
  void AnswerBatch(uint64_t place, uint64_t batch_number,
                   absl::StatusOr<v1::IngestResponse> response) {
    if (absl::IsUnavailable(response.status())) return EndNow(response.status());
    v1::IngestResponse answer;
    if (response.ok()) {
      answer = *std::move(response);
    } else {
      answer.set_error_code(static_cast<int32_t>(response.status().code()));
      answer.set_error_message(ErrorText(response.status().message()));
      for (auto& [field, description] : FieldViolationsOf(response.status())) {
        auto* violation = answer.mutable_bad_request()->add_field_violations();
        violation->set_field(std::move(field));
        violation->set_description(std::move(description));
      }
    }
    answer.set_batch_number(batch_number);
    Answer(place, std::move(answer));
  }

  EventApi& events_;
  IngestOptions ingest_options_;
  std::string parent_;
  v1::Event defaults_;
};

// The unary methods get messages, the stream gets bytes (see stream_message_grpc.h).
template <typename Base>
using UnaryMethods = v1::EventService::WithCallbackMethod_CreateEvent<
    v1::EventService::WithCallbackMethod_BatchCreateEvents<
        v1::EventService::WithCallbackMethod_GetEvent<
            v1::EventService::WithCallbackMethod_ListEvents<
                v1::EventService::WithCallbackMethod_CancelEvent<Base>>>>>;

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
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context,
                                       const v1::ListEventsRequest* request,
                                       v1::ListEventsResponse* response) override {
    grpc::ServerUnaryReactor* reactor = nullptr;
    events_.ListEvents(*request, AnswerTo(context, response, &reactor));
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
