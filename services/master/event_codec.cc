#include "services/master/event_codec.h"

#include <algorithm>
#include <utility>

#include "common/base/micros.h"
#include "common/storage/event_id.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "services/master/limits.h"
#include "services/master/proto_time.h"
#include "services/master/resource_name.h"

namespace escapement::master {

EventRowBuilder::EventRowBuilder(Options options)
    : options_(std::move(options)), now_micros_(ToMicros(options_.now)) {
  row_.set_tenant(options_.tenant);
  row_.set_count(1);
  row_.set_run_count(1);
}

const std::string& EventRowBuilder::Add(const NewEvent& event, kv::Group* group) {
  const bool client_chosen = !event.client_id.empty();
  EventKey key;
  key.lane = static_cast<uint8_t>(event.priority);
  // What is late already is due now: its Done record belongs to the day on which it was possible.
  const int64_t launch_micros = std::max(event.nominal_micros, now_micros_);
  key.due_time = FromMicros(launch_micros);
  if (client_chosen) {
    row_.set_event_id(event.client_id.data(), event.client_id.size());
    key.uid = UidOfClientChosenId(options_.tenant, event.client_id);
    key.shard = ShardOfEventId(event.client_id, options_.queue_shards);
  } else {
    // Consecutive events go to consecutive shards.
    key.shard = static_cast<uint16_t>((options_.uid_low + added_) % options_.queue_shards);
    key.uid = Uid::FromHalves(options_.uid_high, options_.uid_low + added_);
    *row_.mutable_event_id() = ServerMadeEventId(key);
    ++added_;
  }
  row_.set_client_chosen_id(client_chosen);
  row_.set_definition_hash(event.definition_hash->bytes().data(), Uid::kBytes);
  row_.set_nominal_time_micros(event.nominal_micros);
  row_.set_launch_time_micros(launch_micros);
  row_.set_payload(event.payload.data(), event.payload.size());

  kv::Mutation& put = group->mutations.emplace_back();
  put.cf = kv::ColumnFamily::kEvents;
  put.key = EncodeEventKey(key);
  row_.SerializeToString(&put.value);
  if (client_chosen) {
    storage::v1::EventNameRecord name;
    name.set_event_key(put.key);
    name.set_launch_time_micros(launch_micros);
    std::string name_key = EventNameKey(options_.tenant, event.client_id);
    group->conditions.push_back({.cf = kv::ColumnFamily::kEventNames,
                                 .key = name_key,
                                 .kind = kv::Condition::Kind::kAbsent});
    group->mutations.push_back({.cf = kv::ColumnFamily::kEventNames,
                                .key = std::move(name_key),
                                .value = name.SerializeAsString()});
  }
  return row_.event_id();
}

void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations* violations) {
  if (due_micros < kDueTimeMicrosMin || due_micros > kDueTimeMicrosMax) {
    violations->Add(field, "must be from the year 1 to 2199");
  }
}

std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations* violations) {
  if (!event.has_due_time()) {
    violations->Add(field, "is required");
    return std::nullopt;
  }
  const std::optional<int64_t> micros = TimestampMicros(event.due_time());
  if (!micros.has_value()) {
    violations->Add(field, "is not a valid time");
  } else {
    CheckDueMicros(*micros, field, violations);
  }
  return micros;
}

void CheckClientEventId(absl::string_view event_id, absl::string_view field,
                        FieldViolations* violations) {
  if (!event_id.empty() && !IsClientEventId(event_id)) {
    violations->Add(field,
                    "must be 1-63 characters of a-z, A-Z, 0-9, '-', '_', not of the form that the "
                    "server makes");
  }
}

std::string InternKey(const Uid& hash) { return DefinitionKey(hash, 0); }

kv::Group InternGroup(const InternedDelivery& interned) {
  const std::string key = InternKey(interned.hash);
  kv::Group group;
  group.conditions.push_back(
      {.cf = kv::ColumnFamily::kDefinitions, .key = key, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kDefinitions, .key = key, .value = interned.definition});
  return group;
}

v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(row.event_id());
  SetTimestamp(row.nominal_time_micros(), event.mutable_due_time());
  event.set_payload(row.payload());
  event.set_state(state);
  event.set_attempts(static_cast<int32_t>(row.attempts()));
  event.set_reason(row.last_error());
  if (definition != nullptr) WriteDelivery(definition->delivery(), &event);
  return event;
}

v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(done.event_id());
  SetTimestamp(done.nominal_time_micros(), event.mutable_due_time());
  event.set_state(v1::ENDED);
  event.set_outcome(ShowOutcome(done.outcome()));
  event.set_reason(done.reason());
  event.set_attempts(static_cast<int32_t>(done.attempts()));
  if (done.dispatch_time_micros() != 0)
    SetTimestamp(done.dispatch_time_micros(), event.mutable_dispatch_time());
  SetTimestamp(done.complete_time_micros(), event.mutable_complete_time());
  event.set_output(done.output());
  return event;
}

v1::Outcome ShowOutcome(storage::v1::OutcomeKind outcome) {
  switch (outcome) {
    case storage::v1::OUTCOME_KIND_SUCCEEDED:
      return v1::SUCCEEDED;
    case storage::v1::OUTCOME_KIND_FAILED:
      return v1::FAILED;
    case storage::v1::OUTCOME_KIND_EXPIRED:
      return v1::EXPIRED;
    case storage::v1::OUTCOME_KIND_CANCELLED:
      return v1::CANCELLED;
    case storage::v1::OUTCOME_KIND_SKIPPED:
      return v1::SKIPPED;
    default:
      return v1::OUTCOME_UNSPECIFIED;
  }
}

}  // namespace escapement::master
