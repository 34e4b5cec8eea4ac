#include "tests/bench/ingest_client.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::bench {
namespace {

// What the thread that reads answers shares with the one that writes.
struct Window {
  absl::Mutex mutex;
  uint64_t unanswered ABSL_GUARDED_BY(mutex) = 0;
  uint64_t created ABSL_GUARDED_BY(mutex) = 0;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  std::string refused ABSL_GUARDED_BY(mutex);
};

using IngestStream = grpc::ClientReaderWriter<v1::IngestRequest, v1::IngestResponse>;

void ReadAnswers(IngestStream* stream, Window* window) {
  v1::IngestResponse response;
  while (stream->Read(&response)) {
    absl::MutexLock lock(&window->mutex);
    --window->unanswered;
    window->created += static_cast<uint64_t>(response.created_count());
    if (response.error_code() != 0) window->refused = response.error_message();
  }
  absl::MutexLock lock(&window->mutex);
  window->ended = true;
}

v1::IngestRequest MakeBatch(const IngestOptions& options, uint64_t first) {
  v1::IngestRequest request;
  if (first == 0) {
    request.set_parent("tenants/default");
    *request.mutable_defaults()->mutable_target() = options.target;
    request.mutable_defaults()->mutable_delivery_timeout()->set_seconds(30);
  }
  const uint64_t end = std::min<uint64_t>(options.events, first + options.batch_events);
  for (uint64_t i = first; i < end; ++i) {
    v1::IngestEvent* event = request.add_events();
    event->set_due_time_micros(absl::ToUnixMicros(options.due_time(i)));
    event->mutable_payload()->assign(options.payload_bytes, static_cast<char>('a' + i % 26));
  }
  return request;
}

}  // namespace

absl::StatusOr<absl::Duration> Ingest(const IngestOptions& options) {
  const auto stub = v1::EventService::NewStub(NewChannel(options.master));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  const std::unique_ptr<IngestStream> stream = stub->Ingest(&context);
  Window window;
  std::thread reader([&] { ReadAnswers(stream.get(), &window); });
  const absl::Time begin = absl::Now();
  uint64_t batch_number = 0;
  for (uint64_t first = 0; first < options.events; first += options.batch_events) {
    v1::IngestRequest request = MakeBatch(options, first);
    request.set_batch_number(++batch_number);
    {
      const auto room = [&window, &options]() ABSL_SHARED_LOCKS_REQUIRED(window.mutex) {
        return window.ended ||
               window.unanswered < static_cast<uint64_t>(options.batches_unanswered_max);
      };
      absl::MutexLock lock(&window.mutex);
      window.mutex.Await(absl::Condition(&room));
      if (window.ended) break;
      ++window.unanswered;
    }
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  reader.join();
  const absl::Duration took = absl::Now() - begin;
  if (const grpc::Status status = stream->Finish(); !status.ok()) return FromGrpcStatus(status);
  absl::MutexLock lock(&window.mutex);
  if (!window.refused.empty()) return absl::AbortedError(window.refused);
  if (window.created != options.events) {
    return absl::DataLossError(
        absl::StrCat(window.created, " of ", options.events, " events were acknowledged"));
  }
  return took;
}

}  // namespace escapement::bench
