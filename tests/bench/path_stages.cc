#include "tests/bench/path_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/bench/ingest_client.h"
#include "tests/integration/api_client.h"
#include "tests/integration/http_get.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kStageMax = absl::Seconds(60);
constexpr absl::Duration kPoll = absl::Milliseconds(20);
// The handler's counter of events whose success is durable.
constexpr absl::string_view kEndedCounter = "escapement_handler_succeeded_total";

// How long after the ingest the events of a stage fall due.
constexpr absl::Duration kLead = absl::Seconds(2);

}  // namespace

PathStages::PathStages(const Options& options, ReceiverProcess* receiver)
    : options_(options),
      receiver_(receiver),
      platform_({.bin = options.bin, .folder = options.folder}) {}

absl::Status PathStages::Start() {
  return options_.separate ? platform_.Start() : platform_.Start({"standalone"});
}

const std::string& PathStages::master() const {
  return platform_.grpc_address(options_.separate ? "master" : "standalone");
}

absl::StatusOr<double> PathStages::IngestRate(uint64_t events) {
  const absl::Time due = absl::Now() + absl::Hours(24);
  const auto took = Ingest({.master = master(),
                            .target = integration::GrpcTo(receiver_->grpc_target()),
                            .events = events,
                            .payload_bytes = options_.payload_bytes,
                            .due_time = [due](uint64_t i) { return due + absl::Microseconds(i); }});
  if (!took.ok()) return took.status();
  return static_cast<double>(events) / absl::ToDoubleSeconds(*took);
}

absl::StatusOr<double> PathStages::OneOffRate(const v1::Target& target, uint64_t events) {
  if (absl::Status status = receiver_->Clear(); !status.ok()) return status;
  const auto ended_before = Ended();
  if (!ended_before.ok()) return ended_before.status();
  // All are stored before the first is due.
  const absl::Time due =
      absl::Now() + kLead + absl::Microseconds(20) * static_cast<int64_t>(events);
  const auto took = Ingest({.master = master(),
                            .target = target,
                            .events = events,
                            .payload_bytes = options_.payload_bytes,
                            .due_time = [due](uint64_t) { return due; }});
  if (!took.ok()) return took.status();
  if (absl::Now() > due)
    return absl::DeadlineExceededError("the ingest took longer than the time to the due instant");
  const auto counts = AwaitArrivals(events);
  if (!counts.ok()) return counts.status();
  if (absl::Status status = AwaitEnded(*ended_before + static_cast<double>(events)); !status.ok())
    return status;
  const absl::Time end =
      std::max(absl::Now() - kPoll, absl::FromUnixMicros(counts->last_wall_micros));
  return static_cast<double>(events) /
         absl::ToDoubleSeconds(end - absl::FromUnixMicros(counts->first_wall_micros));
}

absl::StatusOr<double> PathStages::RunRate(const v1::Target& target, uint64_t events) {
  if (absl::Status status = receiver_->Clear(); !status.ok()) return status;
  integration::ApiClient client(master());
  const auto ended_before = Ended();
  if (!ended_before.ok()) return ended_before.status();
  const std::string id = absl::StrCat("bench-", ++schedules_);
  v1::Schedule schedule;
  schedule.set_cron("0 0 1 1 *");  // fires when it is told to
  schedule.set_event_count(static_cast<int64_t>(events));
  *schedule.mutable_target() = target;
  schedule.set_payload(std::string(options_.payload_bytes, 'b'));
  schedule.mutable_delivery_timeout()->set_seconds(30);
  if (const auto created = client.CreateSchedule(id, schedule); !created.ok())
    return created.status();
  if (const auto run = client.TriggerSchedule(id); !run.ok()) return run.status();
  const auto counts = AwaitArrivals(events);
  if (!counts.ok()) return counts.status();
  if (absl::Status status = AwaitEnded(*ended_before + static_cast<double>(events)); !status.ok())
    return status;
  const absl::Time end =
      std::max(absl::Now() - kPoll, absl::FromUnixMicros(counts->last_wall_micros));
  return static_cast<double>(events) /
         absl::ToDoubleSeconds(end - absl::FromUnixMicros(counts->first_wall_micros));
}

absl::StatusOr<Lateness> PathStages::LatenessAt(const v1::Target& target, double per_second,
                                                uint64_t events) {
  if (absl::Status status = receiver_->Clear(); !status.ok()) return status;
  const absl::Time begin = absl::Now() + kLead;
  const absl::Duration step = absl::Seconds(1 / per_second);
  const auto took = Ingest(
      {.master = master(),
       .target = target,
       .events = events,
       .payload_bytes = options_.payload_bytes,
       .due_time = [begin, step](uint64_t i) { return begin + step * static_cast<int64_t>(i); }});
  if (!took.ok()) return took.status();
  // Asking the receiver while it works would make it late.
  absl::SleepFor(begin + step * static_cast<int64_t>(events) - absl::Now());
  const auto counts = AwaitArrivals(events);
  if (!counts.ok()) return counts.status();
  return Lateness{counts->late_p50, counts->late_p99, counts->late_max, counts->early};
}

absl::StatusOr<ReceiverCounts> PathStages::AwaitArrivals(uint64_t events) {
  const absl::Time deadline = absl::Now() + kStageMax;
  while (true) {
    const auto counts = receiver_->Counts();
    if (!counts.ok() || counts->distinct >= events) return counts;
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(counts->distinct, " of ", events,
                                                      " events arrived in ",
                                                      absl::FormatDuration(kStageMax)));
    }
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<double> PathStages::Ended() {
  const auto answer = integration::HttpGet(
      platform_.http_address(options_.separate ? "handler" : "standalone"), "/metrics");
  if (!answer.ok()) return answer.status();
  double total = 0;
  for (absl::string_view line : absl::StrSplit(answer->body, '\n')) {
    if (!absl::StartsWith(line, kEndedCounter)) continue;
    double value = 0;
    if (absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) total += value;
  }
  return total;
}

absl::Status PathStages::AwaitEnded(double events) {
  const absl::Time deadline = absl::Now() + kStageMax;
  while (true) {
    const auto ended = Ended();
    if (!ended.ok()) return ended.status();
    if (*ended >= events) return absl::OkStatus();
    if (absl::Now() > deadline)
      return absl::DeadlineExceededError("the ends of all events did not become durable");
    absl::SleepFor(kPoll);
  }
}

}  // namespace escapement::bench
