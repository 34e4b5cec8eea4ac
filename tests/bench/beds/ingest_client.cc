#include "tests/bench/beds/ingest_client.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::bench {
namespace {

// Shared by the thread that reads answers and the thread that writes.
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
    window->created +=
        static_cast<uint64_t>(response.created_count() + response.replaced_positions_size());
    if (response.error_code() != 0) window->refused = response.error_message();
  }
  absl::MutexLock lock(&window->mutex);
  window->ended = true;
}

v1::IngestRequest MakeBatch(const IngestOptions& options, uint64_t first) {
  v1::IngestRequest request;
  if (first == 0) {
    request.set_parent(options.parent);
    *request.mutable_defaults()->mutable_target() = options.target;
    request.mutable_defaults()->mutable_delivery_timeout()->set_seconds(
        absl::ToInt64Seconds(options.delivery_timeout));
    if (options.policies.size() == 1) {
      request.mutable_defaults()->set_policy(options.policies[0]);
    } else {
      for (const std::string& policy : options.policies)
        request.mutable_defaults()->add_limits()->set_policy(policy);
    }
    request.mutable_defaults()->set_completion(options.completion);
    if (options.retry_age_max > absl::ZeroDuration()) {
      request.mutable_defaults()->mutable_retry_policy()->mutable_max_age()->set_seconds(
          absl::ToInt64Seconds(options.retry_age_max));
    }
  }
  const uint64_t end = std::min<uint64_t>(options.events, first + options.batch_events);
  for (uint64_t i = first; i < end; ++i) {
    v1::IngestEvent* event = request.add_events();
    event->set_due_time_micros(absl::ToUnixMicros(options.due_time(i)));
    if (options.half_random) {
      event->set_payload(HalfRandomPayload(options.payload_bytes, i));
    } else {
      event->mutable_payload()->assign(options.payload_bytes, static_cast<char>('a' + i % 26));
    }
    if (options.policy_key != nullptr) {
      const std::string key = options.policy_key(i);
      event->mutable_payload()->replace(0, key.size(), key);
      event->mutable_overrides()->set_policy_key(key);
    }
    if (!options.client_id_prefix.empty())
      event->set_event_id(absl::StrCat(options.client_id_prefix, "-", i));
    event->set_mode(options.mode);
  }
  return request;
}

// Splitmix64.
uint64_t Scatter(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Generous: a failure ends the ingest early, so the deadline should not.
absl::Duration TimeFor(uint64_t events) {
  return absl::Seconds(120) + absl::Microseconds(200) * static_cast<int64_t>(events);
}

}  // namespace

std::string HalfRandomPayload(size_t bytes, uint64_t i) {
  std::string payload(bytes, static_cast<char>('a' + i % 26));
  const size_t random = bytes / 2;
  for (size_t at = 0; at < random; at += sizeof(uint64_t)) {
    const uint64_t word = Scatter(i << 20 | at);
    std::memcpy(payload.data() + at, &word, std::min(sizeof(word), random - at));
  }
  return payload;
}

ZipfKeys::ZipfKeys(uint64_t keys) {
  double sum = 0;
  for (uint64_t k = 1; k <= keys; ++k) sums_.push_back(sum += 1 / static_cast<double>(k));
}

std::string ZipfKeys::Draw(uint64_t i) const {
  const double at = std::ldexp(static_cast<double>(Scatter(i) >> 11), -53) * sums_.back();
  const auto found = std::upper_bound(sums_.begin(), sums_.end() - 1, at);
  return absl::StrFormat("k%07d", found - sums_.begin());
}

absl::StatusOr<absl::Duration> Ingest(const IngestOptions& options) {
  const auto stub = v1::EventService::NewStub(NewChannelOf(options.caller, options.master));
  grpc::ClientContext context;
  AddCredentials(options.caller, context);
  context.set_wait_for_ready(true);
  context.set_deadline(absl::ToChronoTime(absl::Now() + TimeFor(options.events)));
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
