#include "tests/bench/beds/overload_bed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/beds/stored_schedules.h"

namespace escapement::bench {
namespace {

// Polls rarely, since the consumer shares the machine.
constexpr absl::Duration kOverloadPoll = absl::Milliseconds(200);
constexpr absl::Duration kBacklogMax = absl::Seconds(120);
constexpr char kWhenTold[] = "0 0 1 1 *";

double RateOf(uint64_t events, const ReceiverCounts& counts) {
  return static_cast<double>(events) * 1e6 /
         static_cast<double>(counts.last_wall_micros - counts.first_wall_micros);
}

}  // namespace

OverloadBed::OverloadBed(const Options& options)
    : options_(options), platform_({.bin = options.bin, .folder = options.folder}) {}

absl::Status OverloadBed::Start() {
  const absl::Status status =
      platform_.Start({"store", "master", "emitter", "token_manager", "handler"});
  if (!status.ok()) return status;
  api_ = std::make_unique<integration::ApiClient>(platform_.grpc_address("master"));
  policies_ = std::make_unique<fixtures::PolicyClient>(platform_.grpc_address("master"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReceiverProcess>> OverloadBed::StartReceiver(
    const std::string& behaviour) const {
  return ReceiverProcess::Start(options_.bin, {absl::StrCat("--grpc_behaviour=", behaviour)});
}

absl::Status OverloadBed::Ingest(const std::string& target, uint64_t events,
                                 const std::function<absl::Time(uint64_t i)>& due_time) const {
  return bench::Ingest({.master = platform_.grpc_address("master"),
                        .target = integration::GrpcTo(target),
                        .events = events,
                        .payload_bytes = options_.payload_bytes,
                        .due_time = due_time})
      .status();
}

absl::Time OverloadBed::StoreTime(uint64_t events) {
  return absl::Now() + absl::Seconds(2) + absl::Microseconds(30) * static_cast<int64_t>(events);
}

absl::StatusOr<SteadyTraffic> OverloadBed::StoreSteady(absl::Time begin, double per_second,
                                                       absl::Duration length) const {
  SteadyTraffic traffic;
  ASSIGN_OR_RETURN(auto receiver, StartReceiver());
  traffic.receiver = std::move(receiver);
  traffic.begin = begin;
  traffic.per_second = per_second;
  traffic.events = static_cast<uint64_t>(per_second * absl::ToDoubleSeconds(length));
  const absl::Duration step = absl::Seconds(1 / per_second);
  const absl::Status stored =
      Ingest(traffic.receiver->grpc_target(), traffic.events,
             [begin, step](uint64_t i) { return begin + step * static_cast<int64_t>(i); });
  if (!stored.ok()) return stored;
  if (absl::Now() > begin)
    return absl::DeadlineExceededError("the steady traffic was not stored before it began");
  return traffic;
}

absl::Status OverloadBed::Create(const std::string& id, const v1::Schedule& schedule) {
  return api_->CreateSchedule(id, schedule).status();
}

absl::StatusOr<std::string> OverloadBed::CreateBatch(const std::string& target, uint64_t events,
                                                     const std::string& policy) {
  const std::string id = absl::StrCat("batch-", ++ids_);
  v1::Schedule schedule;
  schedule.set_cron(kWhenTold);
  schedule.set_event_count(static_cast<int64_t>(events));
  *schedule.mutable_target() = integration::GrpcTo(target);
  schedule.set_payload(std::string(options_.payload_bytes, 'o'));
  schedule.mutable_delivery_timeout()->set_seconds(30);
  if (!policy.empty()) {
    schedule.set_policy(policy);
    schedule.set_completion(v1::ON_DELIVERY);
  }
  RETURN_IF_ERROR(Create(id, schedule));
  return id;
}

absl::StatusOr<std::string> OverloadBed::CreatePolicy(int64_t concurrent) {
  v1::ThrottlePolicy policy;
  policy.set_max_concurrent(concurrent);
  return policies_->Create(absl::StrCat("policy-", ++ids_), policy);
}

absl::Status OverloadBed::Trigger(const std::string& id) {
  return api_->TriggerSchedule(id).status();
}

absl::StatusOr<double> OverloadBed::BacklogRate(uint64_t events) {
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver());
  const absl::Time due = StoreTime(events);
  const absl::Status stored =
      Ingest(receiver->grpc_target(), events, [due](uint64_t) { return due; });
  if (!stored.ok()) return stored;
  if (absl::Now() > due)
    return absl::DeadlineExceededError("the backlog was not stored before it was due");
  absl::SleepFor(due - absl::Now());
  ASSIGN_OR_RETURN(const auto counts, AwaitArrivals(*receiver, events, kBacklogMax));
  return RateOf(events, counts);
}

absl::StatusOr<double> OverloadBed::RunRate(uint64_t events) {
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver());
  ASSIGN_OR_RETURN(const auto id, CreateBatch(receiver->grpc_target(), events));
  RETURN_IF_ERROR(Trigger(id));
  ASSIGN_OR_RETURN(const auto counts, AwaitArrivals(*receiver, events, kBacklogMax));
  return RateOf(events, counts);
}

absl::StatusOr<ReceiverCounts> OverloadBed::AwaitArrivals(const ReceiverProcess& receiver,
                                                          uint64_t events, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const auto counts = receiver.Counts();
    if (!counts.ok() || counts->distinct >= events) return counts;
    NotePeak();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          counts->distinct, " of ", events, " events arrived in ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(kOverloadPoll);
  }
}

void OverloadBed::PassUntil(absl::Time time) {
  while (absl::Now() < time) {
    NotePeak();
    absl::SleepFor(std::min(kOverloadPoll, time - absl::Now()));
  }
}

void OverloadBed::Kill(const std::vector<std::string>& services) {
  for (const std::string& service : services) platform_.Kill(service);
}

absl::Status OverloadBed::Restart(const std::vector<std::string>& services) {
  for (const std::string& service : services) {
    RETURN_IF_ERROR(platform_.Restart(service));
  }
  for (const std::string& service : services) {
    RETURN_IF_ERROR(platform_.AwaitReady(service));
  }
  return absl::OkStatus();
}

Resident OverloadBed::Memory() {
  Resident resident;
  for (const char* service : {"handler", "store", "emitter"}) {
    const auto bytes = ResidentBytes(service);
    if (bytes.ok()) resident[service] = *bytes;
  }
  return resident;
}

void OverloadBed::NotePeak() {
  for (const auto& [service, bytes] : Memory()) peak_[service] = std::max(peak_[service], bytes);
}

Resident OverloadBed::TakePeak() {
  NotePeak();
  return std::exchange(peak_, {});
}

LatenessOf LatenessBetween(const std::vector<ArrivalTimes>& arrivals, absl::Time from,
                           absl::Time to) {
  std::vector<double> late;  // milliseconds
  for (const ArrivalTimes& arrival : arrivals) {
    const absl::Time launch = absl::FromUnixMicros(arrival.launch_micros);
    if (launch < from || launch >= to) continue;
    late.push_back(static_cast<double>(arrival.wall_micros - arrival.launch_micros) / 1000);
  }
  if (late.empty()) return {};
  std::sort(late.begin(), late.end());
  return {.events = late.size(),
          .p50 = late[late.size() / 2],
          .p99 = late[late.size() * 99 / 100],
          .max = late.back()};
}

uint64_t ArrivedBetween(const std::vector<ArrivalTimes>& arrivals, absl::Time from, absl::Time to) {
  return static_cast<uint64_t>(
      std::count_if(arrivals.begin(), arrivals.end(), [&](const ArrivalTimes& arrival) {
        return arrival.wall_micros >= absl::ToUnixMicros(from) &&
               arrival.wall_micros <= absl::ToUnixMicros(to);
      }));
}

}  // namespace escapement::bench
