#include "services/token_manager/testing/token_world.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/lease/lease_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/testing/test_state.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::GrantReportRecord;

std::unique_ptr<kv::Watch> PoorStore::OpenWatch(kv::WatchRequest request,
                                                kv::WatchObserver observer) {
  if (request.cf == ColumnFamily::kStates && states_delay > absl::ZeroDuration()) {
    observer.on_batch = [this, on_batch = observer.on_batch](kv::WatchBatch batch) {
      executor_->PostAfter(states_delay, [on_batch, batch = std::move(batch)] { on_batch(batch); });
    };
  }
  if (request.cf != ColumnFamily::kWaiting && request.cf != ColumnFamily::kPolicies)
    return inner_.OpenWatch(std::move(request), std::move(observer));
  auto opened = std::make_shared<Opened>();
  opened->cf = request.cf;
  opened->on_lagged = observer.on_lagged;
  opened_.push_back(opened);
  kv::WatchObserver poor = observer;
  const absl::Duration by = request.cf == ColumnFamily::kWaiting ? delay : absl::ZeroDuration();
  poor.on_batch = [this, opened, delay = by, on_batch = observer.on_batch](kv::WatchBatch batch) {
    if (delay == absl::ZeroDuration()) {
      if (!opened->ended) on_batch(std::move(batch));
      return;
    }
    executor_->PostAfter(delay, [opened, on_batch, batch = std::move(batch)] {
      if (!opened->ended) on_batch(batch);
    });
  };
  poor.on_lagged = [opened](const absl::Status& status) {
    if (!std::exchange(opened->ended, true)) opened->on_lagged(status);
  };
  return inner_.OpenWatch(std::move(request), std::move(poor));
}

void PoorStore::Commit(std::shared_ptr<const kv::CommitRequest> request,
                       Callback<kv::CommitResult> done) {
  if (answered_late && answered_late(*request)) {
    return inner_.Commit(std::move(request),
                         [this, done = std::move(done)](absl::StatusOr<kv::CommitResult> result) {
                           answers_.push_back([done, result = std::move(result)] { done(result); });
                         });
  }
  if (!full || request->fence.empty()) return inner_.Commit(std::move(request), std::move(done));
  executor_->Post([done = std::move(done)] { done(absl::ResourceExhaustedError("full")); });
}

template <typename T>
kv::KvStore::Callback<T> PoorStore::Late(absl::Duration by, Callback<T> done) {
  if (by == absl::ZeroDuration()) return done;
  return [this, by, done = std::move(done)](absl::StatusOr<T> result) {
    executor_->PostAfter(by, [done, result = std::move(result)] { done(result); });
  };
}

void PoorStore::MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) {
  const ColumnFamily cf = keys.empty() ? ColumnFamily::kMeta : keys[0].cf;
  const absl::Duration by = cf == ColumnFamily::kWaiting    ? get_delay
                            : cf == ColumnFamily::kPolicies ? policies_delay
                                                            : absl::ZeroDuration();
  inner_.MultiGet(std::move(keys), Late(by, std::move(done)));
}

void PoorStore::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  const bool late = request.cf == ColumnFamily::kWaiting;
  inner_.Scan(std::move(request), Late(late ? scan_delay : absl::ZeroDuration(), std::move(done)));
}

void PoorStore::LetAnswersGo() {
  answered_late = nullptr;
  for (Closure& answer : std::exchange(answers_, {})) executor_->Post(std::move(answer));
}

void PoorStore::Lag(kv::ColumnFamily cf) {
  executor_->Post([opened = opened_, cf] {
    for (const auto& watch : opened) {
      if (watch->cf == cf && !std::exchange(watch->ended, true))
        watch->on_lagged(absl::OutOfRangeError("lagged"));
    }
  });
}

kv::MemKvStore::Options TokenWorld::StoreOptions() {
  kv::MemKvStore::Options options;
  options.layout.queue_shards = kQueueShards;
  options.layout.policy_shards = kPolicyShards;
  options.on_durable = [this](const kv::CommitRecord& record) {
    if (on_commit) on_commit(record);
  };
  return options;
}

TokenWorld::TokenWorld(TokenManagerOptions options, uint64_t seed)
    : runtime(seed),
      store(runtime, StoreOptions()),
      poor_store(store, runtime),
      options_(std::move(options)),
      executor_(runtime.NewExecutor("test")),
      client_(store, runtime, kv::KvClient::Options()) {
  retry.set_max_attempts(4);
  retry.set_min_backoff_micros(1'000'000);
  retry.set_max_backoff_micros(300'000'000);
  retry.set_multiplier(2);
  retry.set_max_age_micros(86'400'000'000);
  for (uint16_t shard = 0; shard < kQueueShards; ++shard) PutLiveQueueShard(shard);
}

void TokenWorld::PutLiveQueueShard(uint16_t shard, absl::Duration ttl) {
  kv::Group group;
  group.mutations.push_back({.cf = ColumnFamily::kLeases,
                             .kind = Mutation::Kind::kPutStamped,
                             .key = lease::LeaseKey("queue_shard", shard),
                             .value = lease::EncodeLeaseValue(1, "handler"),
                             .stamp_offset = lease::kLeaseStampOffset,
                             .stamp_add = ttl});
  Commit(std::move(group));
}

TokenManagerService& TokenWorld::Start(const std::string& name) {
  TokenManagerOptions options = options_;
  options.instance = name;
  managers_[name] = std::make_unique<TokenManagerService>(options, poor_store, runtime);
  managers_[name]->Start();
  return *managers_[name];
}

bool TokenWorld::Commit(kv::Group group) {
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

void TokenWorld::Put(ColumnFamily cf, std::string key, std::string value) {
  kv::Group group;
  group.mutations.push_back({.cf = cf, .key = std::move(key), .value = std::move(value)});
  Commit(std::move(group));
}

void TokenWorld::Delete(ColumnFamily cf, std::string key) {
  kv::Group group;
  group.mutations.push_back({.cf = cf, .kind = Mutation::Kind::kDelete, .key = std::move(key)});
  Commit(std::move(group));
}

Uid TokenWorld::AddSchedule(const std::string& id, const Schedule& schedule) {
  const Uid uid = StableHash128(id);
  AddDefinition(uid, schedule);
  SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, schedule.version);
  return uid;
}

void TokenWorld::AddDefinition(const Uid& uid, const Schedule& schedule) {
  storage::v1::DefinitionRecord definition;
  definition.set_tenant("default");
  definition.set_schedule_id("s");
  definition.set_uid(std::string(uid.bytes()));
  definition.set_version(schedule.version);
  definition.set_cron(schedule.cron);
  definition.set_time_zone("UTC");
  definition.set_priority(schedule.priority);
  auto& delivery = *definition.mutable_delivery();
  delivery.mutable_target()->mutable_grpc()->set_uri(schedule.target);
  delivery.set_delivery_timeout_micros(10'000'000);
  *delivery.mutable_retry() = retry;
  definition.mutable_throttle()->set_policy_id(schedule.policy_id);
  definition.mutable_throttle()->set_on_release(schedule.on_release);
  definition.mutable_throttle()->set_policy_key(schedule.policy_key);
  if (schedule.window.has_value())
    *definition.mutable_throttle()->mutable_window() = *schedule.window;
  Put(ColumnFamily::kDefinitions, DefinitionKey(uid, schedule.version),
      definition.SerializeAsString());
}

void TokenWorld::SetState(const Uid& uid, storage::v1::ScheduleStateKind kind, uint64_t version,
                          absl::Time cancelled_before) {
  Commit({.mutations = {StatePut(uid, kind, version, cancelled_before)}});
}

void TokenWorld::ChangeSchedule(const Uid& uid, const Schedule& schedule, const Row& row) {
  AddDefinition(uid, schedule);
  Commit(
      {.mutations = {RowMutation(uid, schedule, row),
                     StatePut(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, schedule.version)}});
}

storage::v1::PolicyRecord TokenWorld::Limits(uint64_t max_concurrent) {
  storage::v1::PolicyRecord record;
  record.set_max_concurrent(max_concurrent);
  record.set_hold_timeout_micros(60'000'000);
  return record;
}

Uid TokenWorld::PutPolicy(const std::string& id, const storage::v1::PolicyRecord& record) {
  storage::v1::PolicyRecord policy = record;
  policy.set_tenant("default");
  policy.set_policy_id(id);
  Put(ColumnFamily::kPolicies, PolicyKey("default", id), policy.SerializeAsString());
  return PolicyUid("default", id);
}

std::string TokenWorld::AddRow(const Uid& uid, const Schedule& schedule, const Row& row) {
  Mutation put = RowMutation(uid, schedule, row);
  std::string key = put.key;
  Commit({.mutations = {std::move(put)}});
  return key;
}

Uid TokenWorld::AddOneOff(const OneOff& event) {
  storage::v1::DeliveryRecord delivery;
  delivery.mutable_target()->mutable_grpc()->set_uri(event.target);
  delivery.set_delivery_timeout_micros(10'000'000);
  *delivery.mutable_retry() = retry;
  const InternedDelivery interned = Intern(delivery, event.due);
  Commit(InternGroup(interned));
  storage::v1::ThrottleRecord throttle;
  throttle.set_policy_id(event.policy_id);
  throttle.set_on_release(event.on_release);
  throttle.set_policy_key(event.policy_key);
  throttle.set_weight(event.weight);
  throttle.set_by_tenant(event.by_tenant);
  *throttle.mutable_more() = {event.more.begin(), event.more.end()};
  EventRowBuilder builder({.tenant = "default",
                           .queue_shards = kQueueShards,
                           .policy_shards = kPolicyShards,
                           .now = now(),
                           .uid_high = 7,
                           .uid_low = ++one_offs_});
  kv::Group group;
  builder.Add({.client_id = event.id,
               .nominal_micros = ToMicros(event.due),
               .payload = event.payload,
               .definition_hash = &interned.hash,
               .priority = event.priority,
               .max_lateness_micros = absl::ToInt64Microseconds(event.max_lateness),
               .throttle = &throttle,
               .wait_group = WaitGroupOf(event.target, throttle)},
              group);
  const Uid uid = DecodeEventKey(group.mutations[0].key)->uid;
  Commit(std::move(group));
  return uid;
}

bool TokenWorld::CancelOneOff(const Uid& uid) {
  kv::Group group;
  for (const auto& [key, row] : Waiting()) {
    if (WaitingOwnerOf(key).uid != uid) continue;
    for (const auto& [cf, bytes] : {std::pair(ColumnFamily::kWaiting, EncodeWaitingKey(key)),
                                    std::pair(ColumnFamily::kEvents, LimitedEventKey(uid, row))}) {
      group.conditions.push_back(kv::Present(cf, bytes));
      group.mutations.push_back(kv::Delete(cf, bytes));
    }
  }
  return !group.mutations.empty() && Commit(std::move(group));
}

Mutation TokenWorld::RowMutation(const Uid& uid, const Schedule& schedule, const Row& row) {
  storage::v1::EventRecord event;
  event.set_tenant("default");
  event.set_version(schedule.version);
  event.set_count(row.count);
  event.set_run_count(row.count);
  event.set_nominal_time_micros(ToMicros(row.due));
  event.set_launch_time_micros(ToMicros(row.due));
  event.set_priority(schedule.priority);
  event.set_run_kept(row.run_kept);
  auto& throttle = *event.mutable_throttle();
  throttle.set_policy_id(schedule.policy_id);
  throttle.set_on_release(schedule.on_release);
  throttle.set_policy_key(schedule.policy_key);
  if (schedule.window.has_value()) {
    *throttle.mutable_window() = *schedule.window;
    throttle.set_window_begin_micros(ToMicros(row.window_begin.value_or(row.due)));
    if (schedule.window->even()) throttle.set_pace_count(row.count);
  }
  return {
      .cf = ColumnFamily::kWaiting,
      .key = EncodeWaitingKey(WaitingKeyOf(event, uid, row.occurrence, 0, row.due, kPolicyShards)),
      .value = event.SerializeAsString()};
}

TokenWorld::Entry TokenWorld::EntryOf(const SentEvent& event, Kind kind) {
  Entry entry;
  entry.set_policy_uid(event.grant.policy_uid());
  entry.set_epoch(event.grant.epoch());
  entry.set_number(event.grant.number());
  entry.set_kind(kind);
  entry.set_first(event.index);
  entry.set_count(1);
  return entry;
}

std::vector<SentEvent> TokenWorld::Handle(
    const std::function<std::optional<Entry>(const SentEvent&)>& decide) {
  std::vector<SentEvent> sent;
  std::map<uint16_t, GrantReportRecord> reports;
  kv::Group group;
  for (const auto& [key, value] : Rows(ColumnFamily::kInflight)) {
    storage::v1::ClaimRecord claim;
    claim.ParseFromString(value);
    for (const auto& entry : claim.entries()) {
      WaitingOwner owner;
      if (entry.row_stays()) {
        owner.uid = DecodeEventKey(entry.event_key())->uid;
      } else {
        owner = WaitingOwnerOf(*DecodeWaitingKey(entry.event_key()));
      }
      for (uint64_t i = 0; i < entry.ranges(0).count(); ++i) {
        SentEvent event{.at = now(),
                        .uid = owner.uid,
                        .occurrence = owner.occurrence,
                        .index = entry.ranges(0).first() + i,
                        .attempts = entry.event().attempts(),
                        .run_count = entry.event().run_count(),
                        .grant = entry.grant()};
        std::optional<Entry> report;
        if (decide) {
          report = decide(event);
        } else {
          report =
              EntryOf(event, entry.event().throttle().on_release() ? GrantReportRecord::DELIVERED
                                                                   : GrantReportRecord::SUCCEEDED);
        }
        if (report.has_value()) {
          if (report->time_micros() == 0) report->set_time_micros(ToMicros(now()));
          const bool begun = report->kind() != GrantReportRecord::RETURNED &&
                             report->kind() != GrantReportRecord::RESEND;
          if (begun && report->attempts() == 0) report->set_attempts(event.attempts + 1);
          *reports[static_cast<uint16_t>(entry.grant().policy_shard())].add_entries() = *report;
        }
        sent.push_back(std::move(event));
      }
    }
    group.mutations.push_back(
        {.cf = ColumnFamily::kInflight, .kind = Mutation::Kind::kDelete, .key = key});
  }
  for (const auto& [shard, record] : reports) {
    group.mutations.push_back(
        {.cf = ColumnFamily::kWaiting,
         .key = EncodeReportKey({.policy_shard = shard, .origin = 0, .a = 1, .b = ++reports_}),
         .value = record.SerializeAsString()});
  }
  if (!group.mutations.empty()) Commit(std::move(group));
  return sent;
}

void TokenWorld::Report(uint16_t policy_shard, const std::vector<Entry>& entries) {
  GrantReportRecord record;
  for (const Entry& entry : entries) *record.add_entries() = entry;
  Put(ColumnFamily::kWaiting,
      EncodeReportKey({.policy_shard = policy_shard, .origin = 1, .a = 1, .b = ++reports_}),
      record.SerializeAsString());
}

absl::StatusOr<std::vector<bool>> TokenWorld::Apply(const std::string& name, uint16_t policy_shard,
                                                    const std::vector<Entry>& entries) {
  std::optional<absl::StatusOr<std::vector<bool>>> answer;
  manager(name).Apply(policy_shard, entries, [&](absl::StatusOr<std::vector<bool>> result) {
    answer = std::move(result);
  });
  runtime.RunUntil([&] { return answer.has_value(); }, absl::Seconds(60));
  if (!answer.has_value()) return absl::DeadlineExceededError("no answer");
  return *answer;
}

bool TokenWorld::Complete(const std::string& name, const SentEvent& event, Kind kind) {
  const auto answer =
      Apply(name, static_cast<uint16_t>(event.grant.policy_shard()), {EntryOf(event, kind)});
  return answer.ok() && answer->size() == 1 && (*answer)[0];
}

std::map<std::string, std::string> TokenWorld::Rows(ColumnFamily cf) const {
  const auto& family = store.disk()->families[static_cast<size_t>(cf)];
  return {family.begin(), family.end()};
}

size_t TokenWorld::Count(ColumnFamily cf) const {
  return store.disk()->families[static_cast<size_t>(cf)].size();
}

std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> TokenWorld::Waiting() const {
  std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> rows;
  for (const auto& [key, value] : Rows(ColumnFamily::kWaiting)) {
    const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
    if (!decoded.has_value()) continue;
    rows.push_back({*decoded, {}});
    rows.back().second.ParseFromString(value);
  }
  return rows;
}

std::vector<storage::v1::GrantRecord> TokenWorld::Grants() const {
  std::vector<storage::v1::GrantRecord> grants;
  for (const auto& [key, value] : Rows(ColumnFamily::kGrants)) {
    if (DecodeGrantKey(key).has_value()) grants.emplace_back().ParseFromString(value);
  }
  return grants;
}

uint64_t TokenWorld::Held(const Uid& policy) const {
  uint64_t held = 0;
  const auto& family = store.disk()->families[static_cast<size_t>(ColumnFamily::kGrants)];
  const uint16_t shard = PolicyShardOf(policy, kPolicyShards);
  const std::string end = GrantsEnd(shard, policy);
  for (auto row = family.lower_bound(GrantsBegin(shard, policy));
       row != family.end() && row->first < end; ++row) {
    storage::v1::GrantRecord grant;
    grant.ParseFromString(row->second);
    for (const auto& holders : grant.holders()) held += holders.count();
  }
  return held;
}

storage::v1::PolicyCountsRecord TokenWorld::Counts(const Uid& policy) const {
  storage::v1::PolicyCountsRecord counts;
  const auto& family = store.disk()->families[static_cast<size_t>(ColumnFamily::kGrants)];
  const auto found = family.find(PolicyCountsKey(PolicyShardOf(policy, kPolicyShards), policy));
  if (found != family.end()) counts.ParseFromString(found->second);
  return counts;
}

std::vector<storage::v1::DoneRecord> TokenWorld::Done() const {
  std::vector<storage::v1::DoneRecord> records;
  for (const auto& [key, value] : Rows(ColumnFamily::kDone))
    records.emplace_back().ParseFromString(value);
  return records;
}

uint64_t TokenWorld::DoneEvents(storage::v1::OutcomeKind outcome) const {
  uint64_t events = 0;
  for (const storage::v1::DoneRecord& done : Done())
    events += done.outcome() == outcome ? done.count() : 0;
  return events;
}

storage::v1::RunPartRecord TokenWorld::Part(const Uid& uid, const std::string& occurrence,
                                            const Uid& policy) const {
  storage::v1::RunPartRecord part;
  const auto& family = store.disk()->families[static_cast<size_t>(ColumnFamily::kRunParts)];
  const auto found = family.find(RunPartKey({.uid = uid, .occurrence = occurrence},
                                            PolicyRunPart(PolicyShardOf(policy, kPolicyShards))));
  if (found != family.end()) part.ParseFromString(found->second);
  return part;
}

}  // namespace escapement::token_manager
