#include "services/handler/testing/handler_world.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/testing/test_state.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace {

kv::MemKvStore::Options StoreOptions(absl::Duration read_delay) {
  kv::MemKvStore::Options options;
  options.layout.queue_shards = HandlerWorld::kShards;
  options.read_delay = read_delay;
  return options;
}

}  // namespace

void ScriptedTransport::Send(std::vector<DeliveryAttempt> attempts,
                             std::shared_ptr<DeliverySink> sink) {
  for (DeliveryAttempt& attempt : attempts) {
    std::optional<DeliveryResult> result =
        DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
    if (decide) result = decide(attempt);
    const absl::Duration wait = result.has_value() ? delay : attempt.context->timeout;
    if (!result.has_value())
      result = DeliveryResult{.status = DeliveryStatus::kUnknown, .message = "timeout"};
    executor_->PostAfter(wait, [sink, tag = attempt.tag, result] { sink->OnResult(tag, *result); });
    sent.push_back({.at = runtime_.world().Now(),
                    .target = attempt.context->target_key,
                    .attempt = std::move(attempt)});
  }
}

size_t ScriptedTransport::CountTo(const std::string& target) const {
  return std::count_if(sent.begin(), sent.end(),
                       [&](const SentEvent& s) { return s.target == target; });
}

HandlerWorld::HandlerWorld() : HandlerWorld(HandlerOptions()) {}

HandlerWorld::HandlerWorld(HandlerOptions options, absl::Duration read_delay)
    : store(runtime, StoreOptions(read_delay)),
      options_(std::move(options)),
      executor_(runtime.NewExecutor("test")),
      client_(store, runtime, kv::KvClient::Options()) {
  retry.set_max_attempts(4);
  retry.set_min_backoff_micros(1'000'000);
  retry.set_max_backoff_micros(300'000'000);
  retry.set_multiplier(2);
  retry.set_max_age_micros(86'400'000'000);
}

void QuietStore::Commit(std::shared_ptr<const kv::CommitRequest> request,
                        Callback<kv::CommitResult> done) {
  ++commits;
  const auto puts = [&](kv::ColumnFamily cf) {
    return std::any_of(request->groups.begin(), request->groups.end(), [cf](const auto& group) {
      return std::any_of(group.mutations.begin(), group.mutations.end(),
                         [cf](const auto& mutation) {
                           return mutation.cf == cf && mutation.kind == kv::Mutation::Kind::kPut;
                         });
    });
  };
  const bool puts_note = puts(kv::ColumnFamily::kInflight) && puts(kv::ColumnFamily::kMeta);
  if (puts_note && notes_to_refuse_ > 0) {
    --notes_to_refuse_;
    return done(absl::ResourceExhaustedError("no room"));
  }
  if (puts(kv::ColumnFamily::kDone) && std::exchange(refuses_ends_, false))
    return done(absl::InvalidArgumentError("it makes no sense"));
  const std::shared_ptr<bool> holds = puts(kv::ColumnFamily::kInflight) ? quiet_
                                      : puts(kv::ColumnFamily::kParked) ? holds_parked_
                                                                        : nullptr;
  if (holds == nullptr) return inner_.Commit(std::move(request), std::move(done));
  inner_.Commit(std::move(request), [holds, held = held_, done = std::move(done)](
                                        absl::StatusOr<kv::CommitResult> result) mutable {
    if (!*holds) return done(std::move(result));
    held->push_back([done = std::move(done), result = std::move(result)] { done(result); });
  });
}

std::unique_ptr<kv::Watch> QuietStore::OpenWatch(kv::WatchRequest request,
                                                 kv::WatchObserver observer) {
  observer.on_batch = [this, cf = request.cf, quiet = quiet_,
                       on_batch = std::move(observer.on_batch)](kv::WatchBatch batch) {
    if (*quiet) return;
    if (cf == kv::ColumnFamily::kEvents) {
      rows_told += static_cast<uint64_t>(std::count_if(
          batch.mutations.begin(), batch.mutations.end(),
          [](const auto& mutation) { return mutation.kind == kv::Mutation::Kind::kPut; }));
    }
    on_batch(std::move(batch));
  };
  return inner_.OpenWatch(std::move(request), std::move(observer));
}

void QuietStore::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  const bool of_lane = request.cf == kv::ColumnFamily::kEvents && request.limit > 1;
  if (request.cf == kv::ColumnFamily::kEvents) ++event_scans;
  inner_.Scan(std::move(request), [of_lane, holds = holds_scans_, held = held_,
                                   done = std::move(done)](absl::StatusOr<kv::ScanResult> result) {
    if (!of_lane || !*holds) return done(std::move(result));
    held->push_back([done, result = std::move(result)] { done(result); });
  });
}

void QuietStore::TellAll() {
  *quiet_ = *holds_parked_ = *holds_scans_ = false;
  for (Closure& tell : std::exchange(*held_, {})) tell();
}

HandlerService& HandlerWorld::StartHandler(const std::string& name, std::vector<std::string> dead) {
  Running& running = handlers_[name];
  running.transport = std::make_unique<ScriptedTransport>(runtime);
  HandlerOptions options = options_;
  options.instance = name;
  options.dead_instances = std::move(dead);
  options.first_out_max = first_out_max;
  running.service =
      std::make_unique<HandlerService>(options, quiet_store, runtime, *running.transport);
  running.service->Start();
  return *running.service;
}

void HandlerWorld::KillHandler(const std::string& name) {
  const auto dead = handlers_.find(name);
  dead->second.service.reset();
  for (SentEvent& sent : dead->second.transport->sent) sent_by_dead_.push_back(std::move(sent));
  handlers_.erase(dead);
}

std::vector<SentEvent> HandlerWorld::Sent() const {
  std::vector<SentEvent> all = sent_by_dead_;
  for (const auto& [name, running] : handlers_) {
    all.insert(all.end(), running.transport->sent.begin(), running.transport->sent.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const SentEvent& a, const SentEvent& b) { return a.at < b.at; });
  return all;
}

bool HandlerWorld::Commit(kv::Group group) {
  bool applied = false;
  bool answered = false;
  kv::Commit commit;
  commit.groups.push_back(std::move(group));
  client_.CommitAsync(std::move(commit), executor_, [&](absl::StatusOr<kv::CommitResult> result) {
    applied = result.ok() && result->verdicts[0].applied;
    answered = true;
  });
  runtime.RunUntil([&] { return answered; }, absl::Seconds(60));
  return applied;
}

void HandlerWorld::Put(kv::ColumnFamily cf, std::string key, std::string value) {
  kv::Group group;
  group.mutations.push_back({.cf = cf, .key = std::move(key), .value = std::move(value)});
  Commit(std::move(group));
}

storage::v1::DeliveryRecord HandlerWorld::Delivery(const std::string& target) const {
  storage::v1::DeliveryRecord delivery;
  delivery.mutable_target()->mutable_grpc()->set_uri(target);
  delivery.set_content_type("application/json");
  delivery.set_delivery_timeout_micros(absl::ToInt64Microseconds(timeout));
  *delivery.mutable_retry() = retry;
  return delivery;
}

void HandlerWorld::AddDefinition(const Uid& uid, uint64_t version, const std::string& cron,
                                 const std::string& target) {
  storage::v1::DefinitionRecord definition;
  definition.set_tenant("default");
  definition.set_schedule_id("s");
  definition.set_uid(std::string(uid.bytes()));
  definition.set_version(version);
  definition.set_cron(cron);
  definition.set_time_zone("UTC");
  definition.set_payload("payload of version " + std::to_string(version));
  *definition.mutable_delivery() = Delivery(target);
  if (throttle.has_value()) *definition.mutable_throttle() = *throttle;
  Put(kv::ColumnFamily::kDefinitions, DefinitionKey(uid, version), definition.SerializeAsString());
}

void HandlerWorld::SetState(const Uid& uid, storage::v1::ScheduleStateKind kind, uint64_t version,
                            absl::Time cancelled_before) {
  kv::Group group;
  group.mutations.push_back(StatePut(uid, kind, version, cancelled_before));
  Commit(std::move(group));
}

Uid HandlerWorld::AddSchedule(const std::string& id, const std::string& target) {
  const Uid uid = StableHash128(id);
  AddDefinition(uid, 1, "0 3 * * *", target);
  SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  return uid;
}

std::string HandlerWorld::AddRow(const Uid& uid, const Row& row) {
  storage::v1::EventRecord event;
  event.set_tenant("default");
  event.set_version(1);
  event.set_count(row.count);
  event.set_run_count(std::max(row.count, row.run_count));
  event.set_nominal_time_micros(row.nominal_micros != 0 ? row.nominal_micros : ToMicros(row.due));
  event.set_launch_time_micros(ToMicros(row.due));
  std::string key = EncodeEventKey({.shard = row.shard,
                                    .lane = row.lane,
                                    .due_time = row.due,
                                    .uid = uid,
                                    .occurrence = row.occurrence,
                                    .first = row.first});
  Put(kv::ColumnFamily::kEvents, key, event.SerializeAsString());
  return key;
}

std::string HandlerWorld::AddOneOff(const std::string& id, absl::Time due,
                                    const std::string& payload, const std::string& target,
                                    uint16_t shard) {
  storage::v1::DefinitionRecord definition;
  *definition.mutable_delivery() = Delivery(target);
  const Uid hash = StableHash128(definition.SerializeAsString());
  Put(kv::ColumnFamily::kDefinitions, DefinitionKey(hash, 0), definition.SerializeAsString());
  storage::v1::EventRecord event;
  event.set_tenant("default");
  event.set_definition_hash(std::string(hash.bytes()));
  event.set_count(1);
  event.set_run_count(1);
  event.set_nominal_time_micros(ToMicros(due));
  event.set_launch_time_micros(ToMicros(due));
  event.set_payload(payload);
  event.set_event_id(id);
  event.set_max_lateness_micros(absl::ToInt64Microseconds(max_lateness));
  std::string key = EncodeEventKey({.shard = shard,
                                    .lane = 5,
                                    .due_time = due,
                                    .uid = StableHash128(id.empty() ? payload : id),
                                    .occurrence = "",
                                    .first = 0});
  Put(kv::ColumnFamily::kEvents, key, event.SerializeAsString());
  return key;
}

std::map<std::string, std::string> HandlerWorld::Rows(kv::ColumnFamily cf) const {
  const auto& family = store.disk()->families[static_cast<size_t>(cf)];
  return {family.begin(), family.end()};
}

std::vector<storage::v1::DoneRecord> HandlerWorld::Done() const {
  std::vector<storage::v1::DoneRecord> records;
  for (const auto& [key, value] : Rows(kv::ColumnFamily::kDone))
    records.emplace_back().ParseFromString(value);
  return records;
}

storage::v1::RunPartRecord HandlerWorld::OnlyRunPart() const {
  storage::v1::RunPartRecord part;
  size_t parts = 0;
  for (const auto& [key, value] : Rows(kv::ColumnFamily::kRunParts)) {
    const Uid uid = Uid::FromBytes(key.substr(0, Uid::kBytes));
    if (key.rfind(ScheduleCountsPrefix(uid), 0) == 0) continue;
    ++parts;
    EXPECT_TRUE(part.ParseFromString(value));
  }
  EXPECT_EQ(parts, 1u);
  return part;
}

storage::v1::RunPartRecord HandlerWorld::ScheduleCounts(const Uid& uid) const {
  storage::v1::RunPartRecord sum;
  for (const auto& [key, value] : Rows(kv::ColumnFamily::kRunParts)) {
    if (key.rfind(ScheduleCountsPrefix(uid), 0) != 0) continue;
    storage::v1::RunPartRecord part;
    EXPECT_TRUE(part.ParseFromString(value));
    AddScheduleCounts(part, sum);
  }
  return sum;
}

uint64_t HandlerWorld::DoneEvents(storage::v1::OutcomeKind outcome) const {
  uint64_t events = 0;
  for (const storage::v1::DoneRecord& done : Done())
    events += done.outcome() == outcome ? done.count() : 0;
  return events;
}

}  // namespace escapement::handler
