#include "services/master/events/event_grpc.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.pb.h"
#include "google/protobuf/arena.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/batch_turns.h"

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
  IngestStream(EventApi& events, AdmittedCall call)
      : OrderedStream({.unanswered_max = kIngestOutstandingMax}),
        events_(events),
        call_(std::move(call)) {
    const auto& metadata = call_.context->client_metadata();
    const auto it = metadata.find(kReturnIdsMetadata);
    ingest_options_.return_ids = it != metadata.end() && it->second == "true";
  }

 protected:
  absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) override {
    auto memory = std::make_shared<ArenaRequest>();
    RETURN_IF_ERROR(ReadMessage(bytes, memory->request));
    FillFromEarlierBatches(*memory->request);
    const std::shared_ptr<const v1::IngestRequest> batch(memory, memory->request);
    Done<v1::IngestResponse> done(
        [this, self = self(), place, batch](absl::StatusOr<v1::IngestResponse> response) {
          if (!response.ok()) {
            call_.gate->OnAnswered(*call_.method, *call_.caller, batch->parent(), "",
                                   response.status());
          }
          AnswerBatch(place, batch->batch_number(), std::move(response));
          turns_.End(batch);
        },
        call_.caller);
    absl::Status allowed = call_.CheckRequest(*batch);
    if (absl::IsUnauthenticated(allowed)) return allowed;
    turns_.Add(batch,
               [this, batch, allowed = std::move(allowed), done = std::move(done)]() mutable {
                 if (!allowed.ok()) return done(std::move(allowed));
                 // Its client may have sent it to another master by now.
                 if (ended()) return done(NotReady());
                 events_.IngestBatch(batch, ingest_options_, std::move(done));
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
  const AdmittedCall call_;
  BatchTurns turns_;
  IngestOptions ingest_options_;
  std::string parent_;
  v1::Event defaults_;
};

}  // namespace

void AddEventRpcs(EventApi& events, RpcTable& table) {
  table.AddUnary(events, &EventApi::CreateEvent);
  table.AddUnary(events, &EventApi::BatchCreateEvents);
  table.AddUnary(events, &EventApi::UpsertEvent);
  table.AddUnary(events, &EventApi::UpdateEvent);
  table.AddUnary(events, &EventApi::GetEvent);
  table.AddUnary(events, &EventApi::ListEvents);
  table.AddUnary(events, &EventApi::CancelEvent);
  table.AddStream("escapement.v1.EventService.Ingest", [&events](AdmittedCall call) {
    return IngestStream::Start(std::make_shared<IngestStream>(events, std::move(call)));
  });
}

}  // namespace escapement::master
