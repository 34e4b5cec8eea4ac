#include "services/master/operations/redrive_batch.h"

#include <iterator>

#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/base/uid.h"
#include "common/kv/group_parts.h"
#include "common/records/row_judge.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::EventRecord;

Uid UidOf(const StoredDeadLetter& letter) { return Uid::FromBytes(letter.record.uid()); }

RunKey RunKeyOf(const StoredDeadLetter& letter) {
  return {.uid = UidOf(letter), .occurrence = letter.record.occurrence()};
}

std::string NameKey(const StoredDeadLetter& letter) {
  return EventNameKey(letter.name.tenant, letter.name.event_id);
}

// The policies of a one-off event that waits for tokens.
std::set<std::string> PoliciesOf(const StoredDeadLetter& letter) {
  return PolicyIdsOf(letter.record.event().throttle());
}

// The event's row: as at its last attempt, but with a new round of attempts.
EventRecord RedrivenRow(const StoredDeadLetter& letter, absl::Time now) {
  EventRecord row = letter.record.event();
  row.set_count(1);
  row.set_redrives(row.redrives() + 1);
  row.set_attempts_before_redrive(row.attempts());
  row.clear_tried_since_micros();
  row.clear_lost_claims();
  if (IsOneOff(letter.record)) {
    row.set_event_id(letter.name.event_id);
    return row;
  }
  // The user wants the event sent: neither a change of the schedule's times nor its next occurrence
  // nor a pause that has begun before keeps it back.
  row.set_triggered(true);
  row.set_trigger_time_micros(ToMicros(now));
  if (row.has_throttle()) {
    storage::v1::ThrottleRecord& throttle = *row.mutable_throttle();
    throttle.set_window_begin_micros(ToMicros(now));
    throttle.clear_pace_first();
    throttle.clear_pace_count();
    throttle.clear_taken();
  }
  return row;
}

}  // namespace

std::vector<kv::Key> RedriveFactKeys(const StoredDeadLetter& letter) {
  if (IsOneOff(letter.record)) {
    std::vector<kv::Key> keys = {{ColumnFamily::kEventNames, NameKey(letter)}};
    if (const auto hash = DeliveryHashOf(letter.record.event()))
      keys.push_back({ColumnFamily::kDefinitions, InternKey(*hash)});
    if (!WaitsAsOneOff(letter.record.event())) return keys;
    for (const std::string& id : PoliciesOf(letter))
      keys.push_back({ColumnFamily::kPolicies, PolicyKey(letter.record.event().tenant(), id)});
    return keys;
  }
  std::vector<kv::Key> keys = {{ColumnFamily::kStates, StateKey(UidOf(letter))}};
  if (HasRun(letter.record.event())) {
    const RunKey run = RunKeyOf(letter);
    keys.push_back({ColumnFamily::kRuns, EncodeRunKey(run)});
    keys.push_back({ColumnFamily::kRunParts, RunPartKey(run, kMasterRunPart)});
  }
  return keys;
}

const std::optional<std::string>& RedriveBatch::Fact(ColumnFamily cf,
                                                     const std::string& key) const {
  const auto fact = facts_.find({cf, key});
  CHECK(fact != facts_.end()) << "a row of a redrive was not read";
  return fact->second;
}

const storage::v1::StateRecord* RedriveBatch::StateOf(const StoredDeadLetter& letter) {
  const std::string key = StateKey(UidOf(letter));
  if (const auto known = states_.find(key); known != states_.end()) return &known->second;
  const auto& bytes = Fact(ColumnFamily::kStates, key);
  storage::v1::StateRecord state;
  if (!bytes.has_value()) state.set_kind(storage::v1::SCHEDULE_STATE_KIND_DELETED);
  if (bytes.has_value() && !state.ParseFromString(*bytes)) return nullptr;
  return &states_.emplace(key, std::move(state)).first->second;
}

storage::v1::RunPartRecord* RedriveBatch::RunPartOf(const StoredDeadLetter& letter) {
  const std::string key = RunPartKey(RunKeyOf(letter), kMasterRunPart);
  if (const auto known = parts_.find(key); known != parts_.end()) return &known->second;
  const auto& bytes = Fact(ColumnFamily::kRunParts, key);
  storage::v1::RunPartRecord part;
  if (bytes.has_value() && !part.ParseFromString(*bytes)) return nullptr;
  return &parts_.emplace(key, std::move(part)).first->second;
}

absl::Status RedriveBatch::CheckSchedule(const StoredDeadLetter& letter) {
  const RunName run = RunOf(letter);
  const storage::v1::StateRecord* const state = StateOf(letter);
  if (state == nullptr) return BrokenRecord(run.schedule.ToString());
  if (state->kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED)
    return ScheduleDeleted(run.schedule.ToString());
  if (CancelledByUser(run.occurrence, *state)) return RunCancelled(run.ToString());
  if (HasRun(letter.record.event()) && RunPartOf(letter) == nullptr)
    return BrokenRecord("a part of a run");
  return absl::OkStatus();
}

absl::StatusOr<Policies> RedriveBatch::PoliciesNow(const StoredDeadLetter& letter) const {
  const EventRecord& event = letter.record.event();
  const bool listed = !event.throttle().more().empty() || event.throttle().weight() > 1;
  const std::vector<storage::v1::LimitRecord> limits = LimitsOf(event.throttle());
  Policies policies;
  for (size_t i = 0; i < limits.size(); ++i) {
    const std::string& id = limits[i].policy_id();
    const std::string name = PolicyName{event.tenant(), id}.ToString();
    const auto& bytes = Fact(ColumnFamily::kPolicies, PolicyKey(event.tenant(), id));
    if (!bytes.has_value()) return PolicyMissing(name, PolicyField("event", listed, i));
    if (!policies[id].emplace().ParseFromString(*bytes)) return BrokenRecord(name);
  }
  return policies;
}

// A client-chosen id is free again once its outcome has been collected, while the dead letter may
// still be there.
absl::Status RedriveBatch::CheckOneOff(const StoredDeadLetter& letter) const {
  if (WaitsAsOneOff(letter.record.event())) {
    ASSIGN_OR_RETURN(const Policies policies, PoliciesNow(letter));
    const absl::Status together = CheckTogether(letter.record.event().throttle(), policies,
                                                layout_.policy_shards, "event.limits");
    if (!together.ok()) return together;
  }
  const auto& bytes = Fact(ColumnFamily::kEventNames, NameKey(letter));
  if (!bytes.has_value()) return absl::OkStatus();
  storage::v1::EventNameRecord name;
  if (!name.ParseFromString(*bytes)) return BrokenRecord("an event's name");
  const std::optional<EventKey> named = DecodeEventKey(name.event_key());
  if (named.has_value() && named->uid == UidOf(letter) &&
      name.launch_time_micros() == letter.record.event().launch_time_micros())
    return absl::OkStatus();
  return EventIdTaken(EventName{letter.name.tenant, letter.name.event_id}.ToString());
}

void RedriveBatch::Require(ColumnFamily cf, const std::string& key) {
  if (!required_.emplace(cf, key).second) return;
  group_.conditions.push_back(kv::Unchanged(cf, key, Fact(cf, key)));
}

bool RedriveBatch::TakeFromRun(const StoredDeadLetter& letter) {
  const std::string run_key = EncodeRunKey(RunKeyOf(letter));
  // The run's owner may close it at any time; whether there is a record is all that matters.
  const bool there = Fact(ColumnFamily::kRuns, run_key).has_value();
  if (required_.emplace(ColumnFamily::kRuns, run_key).second) {
    group_.conditions.push_back(there ? kv::Present(ColumnFamily::kRuns, run_key)
                                      : kv::Absent(ColumnFamily::kRuns, run_key));
  }
  if (!there) return false;
  const std::string part_key = RunPartKey(RunKeyOf(letter), kMasterRunPart);
  Require(ColumnFamily::kRunParts, part_key);
  changed_parts_.insert(part_key);
  storage::v1::RunPartRecord& part = *CheckNotNull(RunPartOf(letter));  // as it was checked
  part.set_failed(part.failed() - 1);
  if (letter.record.event().attempts() == 0) part.set_never_started(part.never_started() - 1);
  return true;
}

// If the definition is missing or cannot be read, the row keeps its hash, and the handler will end
// the event as skipped.
void RedriveBatch::RenewDelivery(absl::Time due) {
  const std::optional<Uid> hash = DeliveryHashOf(row_);
  if (!hash.has_value()) return;
  const auto& bytes = Fact(ColumnFamily::kDefinitions, InternKey(*hash));
  storage::v1::DefinitionRecord definition;
  if (!bytes.has_value() || !definition.ParseFromString(*bytes)) return;
  InternedDelivery renewed = Intern(definition.delivery(), due);
  if (renewed.hash == hash) return;
  row_.set_definition_hash(std::string(renewed.hash.bytes()));
  if (!renewed_.insert(renewed.hash).second) return;
  group_.mutations.push_back(
      kv::Put(ColumnFamily::kDefinitions, InternKey(renewed.hash), std::move(renewed.definition)));
}

void RedriveBatch::PutName(const StoredDeadLetter& letter, const std::string& event_key,
                           const std::string& waiting_key) {
  Require(ColumnFamily::kEventNames, NameKey(letter));
  storage::v1::EventNameRecord name;
  name.set_event_key(event_key);
  name.set_launch_time_micros(row_.launch_time_micros());
  name.set_waiting_key(waiting_key);
  group_.mutations.push_back(
      kv::Put(ColumnFamily::kEventNames, NameKey(letter), name.SerializeAsString()));
}

// A one-off event under a policy: its rows in `events` and in `waiting`.
void RedriveBatch::PutLimited(const StoredDeadLetter& letter, absl::Time due,
                              uint16_t queue_shard) {
  for (const std::string& id : PoliciesOf(letter))
    Require(ColumnFamily::kPolicies, PolicyKey(row_.tenant(), id));
  storage::v1::ThrottleRecord& throttle = *row_.mutable_throttle();
  const absl::StatusOr<Policies> policies = PoliciesNow(letter);  // as they were checked
  throttle.set_by_tenant(policies->at(throttle.policy_id())->by_tenant());
  row_.clear_queue_shard();
  kv::Mutation waiting = WaitingRowOf(row_, queue_shard, UidOf(letter), due, layout_.policy_shards);
  std::string key = EncodeEventKey({.shard = queue_shard,
                                    .lane = kLaneLimited,
                                    .due_time = FromMicros(row_.launch_time_micros()),
                                    .uid = UidOf(letter),
                                    .occurrence = {}});
  PutName(letter, key, waiting.key);
  group_.mutations.push_back(std::move(waiting));
  group_.mutations.push_back(
      kv::Put(ColumnFamily::kEvents, std::move(key), row_.SerializeAsString()));
}

void RedriveBatch::PutRow(const StoredDeadLetter& letter, absl::Time due, uint16_t queue_shard) {
  const storage::v1::DeadLetterRecord& record = letter.record;
  if (WaitsAsOneOff(row_)) return PutLimited(letter, due, queue_shard);
  if (row_.has_throttle()) {
    const WaitingKey key = WaitingKeyOf(row_, UidOf(letter), record.occurrence(), record.index(),
                                        due, layout_.policy_shards);
    group_.mutations.push_back(
        kv::Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), row_.SerializeAsString()));
    return;
  }
  std::string key = EncodeEventKey({.shard = queue_shard,
                                    .lane = kLaneRetry,
                                    .due_time = due,
                                    .uid = UidOf(letter),
                                    .occurrence = record.occurrence(),
                                    .first = record.index()});
  if (IsOneOff(record)) PutName(letter, key, /*waiting_key=*/std::string());
  group_.mutations.push_back(
      kv::Put(ColumnFamily::kEvents, std::move(key), row_.SerializeAsString()));
}

absl::Status RedriveBatch::Add(const StoredDeadLetter& letter, absl::Time due) {
  const bool one_off = IsOneOff(letter.record);
  const absl::Status allowed = one_off ? CheckOneOff(letter) : CheckSchedule(letter);
  if (!allowed.ok()) return allowed;
  const auto done_key = DoneKeyOf(letter.record, letter.name.event_id, layout_.queue_shards);
  if (!done_key.has_value()) return BrokenRecord(ToString(letter.name));

  group_.conditions.push_back(kv::ValueIs(ColumnFamily::kDeadLetters, letter.key, letter.bytes));
  if (!one_off) Require(ColumnFamily::kStates, StateKey(UidOf(letter)));
  group_.mutations.push_back(kv::Delete(ColumnFamily::kDeadLetters, letter.key));
  // The outcome may have been collected already.
  group_.mutations.push_back(kv::Delete(ColumnFamily::kDone, EncodeDoneKey(*done_key)));
  row_ = RedrivenRow(letter, now_);
  if (one_off) RenewDelivery(due);
  if (!one_off && HasRun(row_) && !TakeFromRun(letter)) row_.set_counts_in_no_run(true);
  PutRow(letter, due, done_key->shard);
  return absl::OkStatus();
}

void RedriveBatch::MoveTo(kv::Group& group) {
  for (const std::string& key : changed_parts_) {
    group_.mutations.push_back(
        kv::Put(ColumnFamily::kRunParts, key, parts_.at(key).SerializeAsString()));
  }
  std::move(group_.conditions.begin(), group_.conditions.end(),
            std::back_inserter(group.conditions));
  std::move(group_.mutations.begin(), group_.mutations.end(), std::back_inserter(group.mutations));
  group_ = {};
}

}  // namespace escapement::master
