#include "tests/bench/stages/throttle_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/beds/stored_schedules.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kThrottlePoll = absl::Milliseconds(20);
constexpr absl::Duration kRecordMax = absl::Seconds(60);
// Longer than jemalloc keeps freed memory.
constexpr absl::Duration kSettle = absl::Seconds(15);
// Part of the events that KeysRun.per_second is about.
constexpr double kKeysPart = 0.7;
constexpr int64_t kUnbound = 10'000'000;
// From the begin of an ingest until the first of its events is due.
constexpr absl::Duration kPunctualLead = absl::Seconds(3);
constexpr char kWhenTold[] = "0 0 1 1 *";

std::string SourceOf(const std::string& id) {
  return absl::StrCat("/tenants/default/schedules/", id);
}

absl::StatusOr<uint64_t> TotalRows(const std::string& store) {
  ASSIGN_OR_RETURN(const auto rows, CountRows(store));
  uint64_t total = 0;
  for (const auto& [family, count] : rows) total += count;
  return total;
}

}  // namespace

ThrottleStages::ThrottleStages(const Options& options)
    : options_(options), platform_({.bin = options.bin, .folder = options.folder}) {}

const std::string& ThrottleStages::front(const std::string& service) const {
  return platform_.grpc_address(options_.separate ? service : "standalone");
}

absl::Status ThrottleStages::Start() {
  const std::vector<std::string> separate = {"store", "master", "emitter", "token_manager",
                                             "handler"};
  const absl::Status status =
      platform_.Start(options_.separate ? separate : std::vector<std::string>{"standalone"});
  if (!status.ok()) return status;
  api_ = std::make_unique<integration::ApiClient>(front("master"));
  policies_ = std::make_unique<fixtures::PolicyClient>(front("master"));
  return absl::OkStatus();
}

std::string ThrottleStages::NewId() { return absl::StrCat("throttle-", ++ids_); }

absl::StatusOr<std::unique_ptr<ReceiverProcess>> ThrottleStages::StartReceiver(
    const BatchOptions& options, bool record) const {
  return ReceiverProcess::Start(
      options_.bin,
      {"--worker", absl::StrCat("--token_addresses=", front("token_manager")),
       absl::StrCat("--grpc_behaviour=/work/", absl::ToInt64Milliseconds(options.work)),
       absl::StrCat("--concurrent=", options.concurrent),
       absl::StrCat("--completions_per_second=", options.completions_per_second),
       absl::StrCat("--key_bytes=", options.key_bytes), record ? "--record" : "--norecord"});
}

absl::StatusOr<std::string> ThrottleStages::CreatePolicy(int64_t concurrent) {
  v1::ThrottlePolicy policy;
  policy.set_max_concurrent(concurrent);
  return policies_->Create(NewId(), policy);
}

absl::Status ThrottleStages::CreateSchedule(const std::string& id, const ReceiverProcess& receiver,
                                            const std::string& policy, const BatchOptions& options,
                                            std::optional<absl::Time> due) {
  v1::Schedule schedule;
  schedule.set_cron(due ? absl::FormatTime("%-S %-M %-H %-d %-m *", *due, absl::UTCTimeZone())
                        : kWhenTold);
  schedule.set_event_count(options.events);
  *schedule.mutable_target() = integration::GrpcTo(receiver.grpc_target());
  schedule.set_payload(std::string(options_.payload_bytes, 't'));
  schedule.mutable_delivery_timeout()->set_seconds(30);
  schedule.set_policy(policy);
  if (!policy.empty()) schedule.set_completion(options.completion);
  return api_->CreateSchedule(id, schedule).status();
}

absl::StatusOr<WorkCounts> ThrottleStages::AwaitEnded(const ReceiverProcess& receiver,
                                                      const BatchOptions& options,
                                                      const std::function<void()>& meanwhile) {
  const absl::Time deadline = absl::Now() + options.timeout;
  const auto events = static_cast<uint64_t>(options.events);
  while (true) {
    const auto work = receiver.Work();
    if (!work.ok() || work->ended >= events) return work;
    if (meanwhile) meanwhile();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(work->ended, " of ", events, " events ended in ",
                       absl::FormatDuration(options.timeout), ", ", work->distinct, " arrived"));
    }
    absl::SleepFor(kThrottlePoll);
  }
}

absl::StatusOr<absl::Time> ThrottleStages::AwaitSucceeded(const std::string& id, int64_t events) {
  const absl::Time deadline = absl::Now() + kRecordMax;
  while (true) {
    ASSIGN_OR_RETURN(const auto runs, api_->ListRuns(id));
    const int64_t succeeded = runs.empty() ? 0 : runs.front().succeeded_count();
    if (succeeded >= events) return absl::Now();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the run's record says ", succeeded, " of ", events, " succeeded"));
    }
    absl::SleepFor(kThrottlePoll / 4);
  }
}

absl::StatusOr<BatchResult> ThrottleStages::Batch(const BatchOptions& options) {
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver(options, /*record=*/false));
  std::string policy;
  if (options.concurrent > 0) {
    ASSIGN_OR_RETURN(auto created, CreatePolicy(options.concurrent));
    policy = std::move(created);
  }
  const std::string id = NewId();
  const absl::Time due =
      absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now() + absl::Seconds(2)) + 1);
  if (auto status = CreateSchedule(id, *receiver, policy, options, due); !status.ok())
    return status;
  absl::SleepFor(due - absl::Now());
  if (options.when_due) options.when_due();
  ASSIGN_OR_RETURN(const auto work, AwaitEnded(*receiver, options));
  ASSIGN_OR_RETURN(const auto durable, AwaitSucceeded(id, options.events));

  const absl::Time first = absl::FromUnixMicros(work.first_wall_micros);
  const absl::Time last = absl::FromUnixMicros(work.last_wall_micros);
  const auto events = static_cast<double>(options.events);
  const double span = absl::ToDoubleSeconds(last - first);
  return BatchResult{
      .work = work,
      .per_second = events / span,
      .durable_per_second = events / absl::ToDoubleSeconds(durable - first),
      .busy = options.concurrent == 0
                  ? 0
                  : work.out_event_seconds / static_cast<double>(options.concurrent) / span,
      .took_seconds = absl::ToDoubleSeconds(last - due)};
}

absl::StatusOr<uint64_t> ThrottleStages::AwaitRows(uint64_t before) {
  const absl::Time deadline = absl::Now() + kRecordMax;
  uint64_t last = 0;
  while (absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(500));
    ASSIGN_OR_RETURN(const auto rows, TotalRows(front("store")));
    if (rows > before && rows == last) return rows - before;
    last = rows;
  }
  return absl::DeadlineExceededError("the emission left no rows that stay the same");
}

absl::StatusOr<BigBatchResult> ThrottleStages::BigBatch(int64_t events, int64_t concurrent) {
  const BatchOptions options = {
      .events = events, .concurrent = concurrent, .timeout = absl::Seconds(400)};
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver(options, /*record=*/false));
  ASSIGN_OR_RETURN(const auto policy, CreatePolicy(concurrent));
  RETURN_IF_ERROR(policies_->Pause(policy));
  const std::string id = NewId();
  if (auto status = CreateSchedule(id, *receiver, policy, options, std::nullopt); !status.ok())
    return status;

  BigBatchResult result;
  const std::vector<std::string> services = {"token_manager", "handler"};
  for (const std::string& service : services) {
    ASSIGN_OR_RETURN(const auto bytes, ResidentBytes(service));
    result.before[service] = result.peak[service] = bytes;
  }
  ASSIGN_OR_RETURN(const auto rows_before, TotalRows(front("store")));
  if (const auto run = api_->TriggerSchedule(id); !run.ok()) return run.status();
  ASSIGN_OR_RETURN(const auto rows, AwaitRows(rows_before));
  result.rows = rows;
  RETURN_IF_ERROR(policies_->Resume(policy));
  ASSIGN_OR_RETURN(const auto work, AwaitEnded(*receiver, options, [&result, &services] {
                     for (const std::string& service : services) {
                       const auto bytes = ResidentBytes(service);
                       if (bytes.ok())
                         result.peak[service] = std::max(result.peak[service], *bytes);
                     }
                   }));
  if (const auto durable = AwaitSucceeded(id, events); !durable.ok()) return durable.status();
  result.per_second = static_cast<double>(events) * 1e6 /
                      static_cast<double>(work.last_wall_micros - work.first_wall_micros);
  return result;
}

absl::Status ThrottleStages::AwaitUnused(const std::string& policy) {
  const absl::Time deadline = absl::Now() + kRecordMax;
  while (true) {
    ASSIGN_OR_RETURN(const auto usage, policies_->Usage(policy));
    if (usage.held_count() == 0 && usage.waiting_count() == 0) return absl::OkStatus();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(usage.held_count(), " tokens are held and ",
                                                      usage.waiting_count(), " events wait"));
    }
    absl::SleepFor(kThrottlePoll);
  }
}

absl::StatusOr<std::map<std::string, uint64_t>> ThrottleStages::RowsLeft() {
  const absl::Time deadline = absl::Now() + kRecordMax;
  while (true) {
    ASSIGN_OR_RETURN(const auto rows, CountRows(front("store")));
    std::map<std::string, uint64_t> left;
    uint64_t total = 0;
    for (const char* family : {"waiting", "grants", "events"}) {
      const auto found = rows.find(family);
      left[family] = found == rows.end() ? 0 : found->second;
      total += left[family];
    }
    if (total == 0 || absl::Now() > deadline) return left;
    absl::SleepFor(absl::Milliseconds(500));
  }
}

absl::StatusOr<std::map<std::string, uint64_t>> ThrottleStages::SettledBytes() {
  absl::SleepFor(kSettle);
  std::map<std::string, uint64_t> bytes;
  for (const char* service : {"token_manager", "handler", "standalone"}) {
    if (options_.separate == (absl::string_view(service) == "standalone")) continue;
    ASSIGN_OR_RETURN(bytes[service], ResidentBytes(service));
  }
  return bytes;
}

absl::StatusOr<KeysRun> ThrottleStages::RunKeys(const KeysOptions& options,
                                                int64_t concurrent_per_key) {
  // The largest key has a twelfth of the events.
  BatchOptions batch = {.events = options.events,
                        .concurrent = options.concurrent,
                        .work = options.work,
                        .key_bytes = ZipfKeys::kKeyBytes,
                        .timeout = absl::Seconds(120) + absl::Milliseconds(1) * options.events};
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver(batch, /*record=*/false));
  v1::ThrottlePolicy limits;
  limits.set_max_concurrent(options.concurrent);
  limits.mutable_per_key()->set_max_concurrent(concurrent_per_key);
  limits.set_fairness(v1::ThrottlePolicy::BY_KEY);
  ASSIGN_OR_RETURN(const auto policy, policies_->Create(NewId(), limits));
  RETURN_IF_ERROR(policies_->Pause(policy));
  const ZipfKeys keys(static_cast<uint64_t>(options.keys));
  const absl::Time due = absl::Now();
  const auto took = Ingest({.master = front("master"),
                            .target = integration::GrpcTo(receiver->grpc_target()),
                            .events = static_cast<uint64_t>(options.events),
                            .payload_bytes = options_.payload_bytes,
                            .policies = {policy},
                            .completion = v1::ON_RELEASE,
                            .policy_key = [&keys](uint64_t i) { return keys.Draw(i); },
                            .due_time = [due](uint64_t) { return due; }});
  if (!took.ok()) return took.status();
  RETURN_IF_ERROR(policies_->Resume(policy));

  BatchOptions part = batch;
  part.events = static_cast<int64_t>(kKeysPart * static_cast<double>(options.events));
  ASSIGN_OR_RETURN(const auto first, AwaitEnded(*receiver, part));
  ASSIGN_OR_RETURN(const auto all, AwaitEnded(*receiver, batch));
  RETURN_IF_ERROR(AwaitUnused(policy));
  return KeysRun{
      .per_second = static_cast<double>(first.ended) * 1e6 /
                    static_cast<double>(first.last_wall_micros - first.first_wall_micros),
      .out_max = all.out_max,
      .out_max_of_key = all.out_max_of_key};
}

absl::StatusOr<KeysResult> ThrottleStages::Keys(const KeysOptions& options) {
  KeysResult result;
  // This run goes first, so that the caches that it fills are not counted as left by the bound run.
  ASSIGN_OR_RETURN(result.unbound, RunKeys(options, kUnbound));
  ASSIGN_OR_RETURN(result.before, SettledBytes());
  ASSIGN_OR_RETURN(result.bound, RunKeys(options, options.concurrent_per_key));
  if (options_.separate) {
    ASSIGN_OR_RETURN(result.rows_left, RowsLeft());
  }
  ASSIGN_OR_RETURN(result.after, SettledBytes());
  return result;
}

absl::StatusOr<double> ThrottleStages::UnderPolicies(int64_t events, int policies) {
  const BatchOptions batch = {.events = events, .concurrent = kUnbound};
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver(batch, /*record=*/false));
  std::vector<std::string> names;
  for (int i = 0; i < policies; ++i) {
    ASSIGN_OR_RETURN(auto name, CreatePolicy(kUnbound));
    names.push_back(std::move(name));
  }
  RETURN_IF_ERROR(policies_->Pause(names[0]));
  const absl::Time due = absl::Now();
  const auto took = Ingest({.master = front("master"),
                            .target = integration::GrpcTo(receiver->grpc_target()),
                            .events = static_cast<uint64_t>(events),
                            .payload_bytes = options_.payload_bytes,
                            .policies = names,
                            .completion = v1::ON_RELEASE,
                            .due_time = [due](uint64_t) { return due; }});
  if (!took.ok()) return took.status();
  RETURN_IF_ERROR(policies_->Resume(names[0]));
  ASSIGN_OR_RETURN(const auto work, AwaitEnded(*receiver, batch));
  for (const std::string& name : names) RETURN_IF_ERROR(AwaitUnused(name));
  return static_cast<double>(events) * 1e6 /
         static_cast<double>(work.last_wall_micros - work.first_wall_micros);
}

absl::StatusOr<ReceiverCounts> ThrottleStages::Punctual(const std::string& policy,
                                                        double per_second, int64_t events) {
  ASSIGN_OR_RETURN(const auto receiver, ReceiverProcess::Start(options_.bin));
  const absl::Time begin = absl::Now() + kPunctualLead;
  const absl::Duration step = absl::Seconds(1 / per_second);
  const auto took =
      Ingest({.master = front("master"),
              .target = integration::GrpcTo(receiver->grpc_target()),
              .events = static_cast<uint64_t>(events),
              .payload_bytes = options_.payload_bytes,
              .policies = {policy},
              .completion = v1::ON_DELIVERY,
              .due_time = [&](uint64_t i) { return begin + step * static_cast<int64_t>(i); }});
  if (!took.ok()) return took.status();
  if (absl::Now() > begin) return absl::DeadlineExceededError("the ingest took too long");
  // Sleeps, since questions to the working receiver would make it late.
  const absl::Time last_due = begin + step * events;
  absl::SleepFor(last_due + absl::Seconds(1) - absl::Now());
  const absl::Time deadline = absl::Now() + kRecordMax;
  while (true) {
    const auto counts = receiver->Counts();
    if (!counts.ok() || counts->distinct >= static_cast<uint64_t>(events)) return counts;
    if (absl::Now() > deadline)
      return absl::DeadlineExceededError(absl::StrCat(counts->distinct, " events arrived"));
    absl::SleepFor(kThrottlePoll);
  }
}

absl::StatusOr<BesideFullResult> ThrottleStages::BesideFull(double per_second, int64_t events,
                                                            int64_t others, int64_t concurrent,
                                                            absl::Duration work) {
  ASSIGN_OR_RETURN(const auto open, CreatePolicy(kUnbound));
  ASSIGN_OR_RETURN(const auto full, CreatePolicy(concurrent));
  BesideFullResult result;
  ASSIGN_OR_RETURN(result.alone, Punctual(open, per_second, events));
  ASSIGN_OR_RETURN(
      const auto receiver,
      StartReceiver({.events = others, .concurrent = concurrent, .work = work}, /*record=*/false));
  const absl::Time due = absl::Now();
  const auto took = Ingest({.master = front("master"),
                            .target = integration::GrpcTo(receiver->grpc_target()),
                            .events = static_cast<uint64_t>(others),
                            .payload_bytes = options_.payload_bytes,
                            .policies = {open, full},
                            .completion = v1::ON_RELEASE,
                            .due_time = [due](uint64_t) { return due; }});
  if (!took.ok()) return took.status();
  ASSIGN_OR_RETURN(result.beside, Punctual(open, per_second, events));
  ASSIGN_OR_RETURN(result.others, receiver->Work());
  return result;
}

absl::StatusOr<FairnessResult> ThrottleStages::Fairness(int64_t large, int64_t small,
                                                        int64_t concurrent, absl::Duration work) {
  BatchOptions options = {.events = large, .concurrent = concurrent, .work = work};
  ASSIGN_OR_RETURN(const auto receiver, StartReceiver(options, /*record=*/true));
  ASSIGN_OR_RETURN(const auto policy, CreatePolicy(concurrent));
  const std::string large_id = NewId();
  if (auto status = CreateSchedule(large_id, *receiver, policy, options, std::nullopt);
      !status.ok()) {
    return status;
  }
  const std::string small_id = NewId();
  options.events = small;
  if (auto status = CreateSchedule(small_id, *receiver, policy, options, std::nullopt);
      !status.ok()) {
    return status;
  }
  if (const auto run = api_->TriggerSchedule(large_id); !run.ok()) return run.status();
  // At first the large schedule has the policy's tokens for itself.
  BatchOptions begun = options;
  begun.events = 4 * concurrent;
  if (const auto ended = AwaitEnded(*receiver, begun); !ended.ok()) return ended.status();
  if (const auto run = api_->TriggerSchedule(small_id); !run.ok()) return run.status();
  if (const auto end = AwaitSucceeded(small_id, small); !end.ok()) return end.status();
  ASSIGN_OR_RETURN(const auto lateness, receiver->Lateness(SourceOf(small_id)));
  if (lateness.size() != static_cast<size_t>(small))
    return absl::InternalError(absl::StrCat(lateness.size(), " arrivals of the small schedule"));
  RETURN_IF_ERROR(api_->DeleteSchedule(large_id));

  const double share =
      static_cast<double>(concurrent) / absl::ToDoubleSeconds(work) / 2;  // events a second
  double sum = 0;
  for (const int64_t micros : lateness) sum += static_cast<double>(micros) / 1e6;
  const auto n = static_cast<double>(small);
  return FairnessResult{
      .mean = sum / n / ((n + 1) / 2 / share),
      .max = static_cast<double>(*std::max_element(lateness.begin(), lateness.end())) / 1e6 /
             (n / share)};
}

}  // namespace escapement::bench
