#include "common/storage/event_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/message_writer.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_id.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement {

uint32_t DoneDay(absl::Time launch_time) {
  const int64_t days = absl::ToUnixSeconds(launch_time) / 86'400;
  return static_cast<uint32_t>(std::clamp<int64_t>(days, 0, UINT32_MAX - 1));
}

std::string DoneDayKey(uint16_t shard, uint32_t day) {
  return KeyWriter().U16(shard).U32(day).Take();
}

std::string DoneUidPrefix(uint16_t shard, uint32_t day, const Uid& uid) {
  return KeyWriter(DoneDayKey(shard, day)).Id(uid).Take();
}

std::string DoneRunPrefix(uint16_t shard, uint32_t day, const Uid& uid,
                          absl::string_view occurrence) {
  return KeyWriter(DoneUidPrefix(shard, day, uid)).Text(occurrence).Take();
}

std::string EncodeDoneKey(const DoneKey& key) {
  return KeyWriter()
      .U16(key.shard)
      .U32(key.day)
      .Id(key.uid)
      .Text(key.occurrence)
      .U64(key.first)
      .Take();
}

std::optional<DoneKey> DecodeDoneKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  DoneKey key;
  key.shard = reader.U16();
  key.day = reader.U32();
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  key.first = reader.U64();
  if (!reader.done()) return std::nullopt;
  return key;
}

storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row) {
  storage::v1::DoneRecord done;
  done.set_tenant(row.tenant());
  done.set_event_id(row.event_id());
  done.set_version(row.version());
  done.set_attempts(row.attempts());
  done.set_nominal_time_micros(row.nominal_time_micros());
  done.set_launch_time_micros(row.launch_time_micros());
  done.set_run_count(std::max<uint64_t>(row.run_count(), 1));
  done.set_run_kept(row.run_kept());
  *done.mutable_tried() = row.tried();
  done.set_redrives(row.redrives());
  done.set_generation(row.generation());
  done.set_revision(row.revision());
  return done;
}

std::string EncodeEventKey(const EventKey& key) {
  return KeyWriter()
      .U16(key.shard)
      .U8(key.lane)
      .Time(key.due_time)
      .Id(key.uid)
      .Text(key.occurrence)
      .U64(key.first)
      .Take();
}

std::optional<EventKey> DecodeEventKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  EventKey key;
  key.shard = reader.U16();
  key.lane = reader.U8();
  key.due_time = reader.Time();
  key.uid = reader.Id();
  key.occurrence = reader.Text();
  key.first = reader.U64();
  if (!reader.done()) return std::nullopt;
  return key;
}

std::string EventLaneKey(uint16_t shard, uint8_t lane, absl::Time due_time) {
  return KeyWriter().U16(shard).U8(lane).Time(due_time).Take();
}

std::string EventShardBegin(uint16_t shard) { return KeyWriter().U16(shard).Take(); }

std::string EventShardEnd(uint16_t shard) { return PrefixEnd(EventShardBegin(shard)); }

std::string ParkedKey(const Uid& uid, absl::string_view event_key) {
  return KeyWriter().Id(uid).Raw(event_key).Take();
}

std::string ParkedPrefix(const Uid& uid) { return std::string(uid.bytes()); }

std::string EventKeyOfParked(absl::string_view parked_key) {
  if (parked_key.size() <= Uid::kBytes) return std::string();
  return std::string(parked_key.substr(Uid::kBytes));
}

std::string DeliveredEventId(std::string event_id, uint64_t generation) {
  if (generation > 0) absl::StrAppend(&event_id, "#", generation);
  return event_id;
}

std::string EndedEventId(const DoneKey& key, const storage::v1::DoneRecord& done) {
  if (!done.event_id().empty()) return done.event_id();
  return ServerMadeEventId({.shard = key.shard,
                            .lane = static_cast<uint8_t>(done.lane()),
                            .due_time = FromMicros(done.launch_time_micros()),
                            .uid = key.uid,
                            .occurrence = ""});
}

absl::Time LaunchTimeOf(int64_t nominal_micros, absl::Time now) {
  return FromMicros(LaunchMicrosOf(nominal_micros, ToMicros(now)));
}

std::string MissedBy(const storage::v1::EventRecord& row, absl::Time now) {
  const int64_t seconds = absl::ToInt64Seconds(now - FromMicros(row.nominal_time_micros()));
  if (seconds < 3600) return absl::StrFormat("missed by %dm%ds", seconds / 60, seconds % 60);
  return absl::StrFormat("missed by %dh%dm", seconds / 3600, seconds / 60 % 60);
}

namespace {

// Bytes of a row beside its texts: mostly two times, a hash, and numbers of one byte. An event
// under a policy has another hash.
constexpr size_t kRowBytes = 56;
constexpr size_t kLimitedBytes = 32;

// Serializes an EventRecord.
std::string RowOf(const EventRowBuilder::Options& options, const NewEvent& event,
                  int64_t launch_micros) {
  using Row = storage::v1::EventRecord;
  const bool limited = event.throttle != nullptr;
  const std::string throttle = limited ? event.throttle->SerializeAsString() : std::string();
  MessageWriter row(kRowBytes + (limited ? kLimitedBytes : 0) + options.tenant.size() +
                    event.payload.size() + event.client_id.size() + throttle.size() +
                    options.trace_parent.size());
  row.Bytes(Row::kTenantFieldNumber, options.tenant)
      .Bytes(Row::kDefinitionHashFieldNumber, event.definition_hash->bytes())
      .Number(Row::kCountFieldNumber, 1)
      .Number(Row::kRunCountFieldNumber, 1)
      .Number(Row::kNominalTimeMicrosFieldNumber, static_cast<uint64_t>(event.nominal_micros))
      .Number(Row::kLaunchTimeMicrosFieldNumber, static_cast<uint64_t>(launch_micros))
      .Bytes(Row::kPayloadFieldNumber, event.payload)
      .Bytes(Row::kEventIdFieldNumber, event.client_id)
      .Number(Row::kClientChosenIdFieldNumber, event.client_id.empty() ? 0 : 1);
  if (limited) {
    row.Message(Row::kThrottleFieldNumber, throttle)
        .Number(Row::kPriorityFieldNumber, event.priority);
  }
  row.Bytes(Row::kTraceParentFieldNumber, options.trace_parent);
  if (limited) row.Bytes(Row::kWaitGroupFieldNumber, event.wait_group.bytes());
  if (event.before != nullptr) {
    row.Number(Row::kGenerationFieldNumber, event.before->generation)
        .Number(Row::kRevisionFieldNumber, event.before->revision);
  }
  row.Number(Row::kMaxLatenessMicrosFieldNumber, static_cast<uint64_t>(event.max_lateness_micros));
  return row.Take();
}

}  // namespace

EventRowBuilder::EventRowBuilder(Options options)
    : options_(std::move(options)), now_micros_(ToMicros(options_.now)) {}

std::string EventRowBuilder::event_id() const {
  return client_id_.empty() ? ServerMadeEventId(key_) : client_id_;
}

void EventRowBuilder::Add(const NewEvent& event, kv::Group& group) {
  const bool client_chosen = !event.client_id.empty();
  const bool limited = event.throttle != nullptr;
  key_.lane = limited ? kLaneLimited : static_cast<uint8_t>(event.priority);
  const int64_t launch_micros = LaunchMicrosOf(event.nominal_micros, now_micros_);
  key_.due_time = FromMicros(launch_micros);
  CHECK_EQ(DeliveryPeriodOf(*event.definition_hash), DeliveryPeriodOf(launch_micros));
  client_id_.clear();
  if (client_chosen) {
    client_id_.assign(event.client_id.data(), event.client_id.size());
    key_.uid = event.before != nullptr ? event.before->uid
                                       : UidOfClientChosenId(options_.tenant, event.client_id);
    key_.shard = ShardOfEventId(event.client_id, options_.queue_shards);
  } else {
    // Consecutive events go to consecutive shards.
    key_.shard = static_cast<uint16_t>((options_.uid_low + added_) % options_.queue_shards);
    key_.uid = Uid::FromHalves(options_.uid_high, options_.uid_low + added_);
    ++added_;
  }
  kv::Mutation& put = group.mutations.emplace_back();
  put.cf = kv::ColumnFamily::kEvents;
  put.key = EncodeEventKey(key_);
  put.value = RowOf(options_, event, launch_micros);
  if (!client_chosen && !limited) return;

  storage::v1::EventNameRecord name;
  name.set_event_key(put.key);
  if (limited) {
    storage::v1::EventRecord row;
    CHECK(row.ParseFromString(put.value));
    kv::Mutation waiting =
        WaitingRowOf(row, key_.shard, key_.uid, key_.due_time, options_.policy_shards);
    name.set_waiting_key(waiting.key);
    group.mutations.push_back(std::move(waiting));
  }
  if (!client_chosen) return;
  name.set_launch_time_micros(launch_micros);
  if (event.nominal_micros != launch_micros) name.set_nominal_time_micros(event.nominal_micros);
  if (event.before != nullptr) {
    name.set_generation(event.before->generation);
    name.set_revision(event.before->revision);
  }
  name.set_debounced_since_micros(event.debounced_since_micros);
  std::string name_key = EventNameKey(options_.tenant, event.client_id);
  group.conditions.push_back(event.before != nullptr
                                 ? kv::ValueIs(kv::ColumnFamily::kEventNames, name_key,
                                               event.before->name, event.before->read_at)
                                 : kv::Absent(kv::ColumnFamily::kEventNames, name_key));
  group.mutations.push_back({.cf = kv::ColumnFamily::kEventNames,
                             .key = std::move(name_key),
                             .value = name.SerializeAsString()});
}

namespace {

constexpr int64_t kPeriodMicros = int64_t{28} * 24 * 3'600'000'000;
constexpr size_t kPeriodBytes = sizeof(DeliveryPeriod);

}  // namespace

DeliveryPeriod DeliveryPeriodOf(int64_t due_micros) {
  constexpr int64_t kLast = std::numeric_limits<DeliveryPeriod>::max();
  return static_cast<DeliveryPeriod>(std::clamp<int64_t>(due_micros / kPeriodMicros, 0, kLast));
}

DeliveryPeriod DeliveryPeriodOf(absl::Time due) { return DeliveryPeriodOf(ToMicros(due)); }

InternedDelivery Intern(const storage::v1::DeliveryRecord& delivery, absl::Time due) {
  const DeliveryPeriod period = DeliveryPeriodOf(due);
  InternedDelivery interned;
  const Uid content = StableHash128(SerializeDeterministically(delivery));
  interned.hash = Uid::FromBytes(
      absl::StrCat(DeliveryPeriodBegin(period), content.bytes().substr(kPeriodBytes)));
  storage::v1::DefinitionRecord definition;
  *definition.mutable_delivery() = delivery;
  definition.set_create_time_micros(period * kPeriodMicros);
  interned.definition = SerializeDeterministically(definition);
  return interned;
}

DeliveryPeriod DeliveryPeriodOf(const Uid& hash) {
  const absl::string_view bytes = hash.bytes();
  return static_cast<DeliveryPeriod>(static_cast<unsigned char>(bytes[0]) << 8 |
                                     static_cast<unsigned char>(bytes[1]));
}

std::optional<Uid> DeliveryHashOf(const storage::v1::EventRecord& event) {
  if (event.definition_hash().size() != Uid::kBytes) return std::nullopt;
  return Uid::FromBytes(event.definition_hash());
}

kv::Group InternGroup(const InternedDelivery& interned) {
  const std::string key = InternKey(interned.hash);
  kv::Group group;
  group.conditions.push_back(
      {.cf = kv::ColumnFamily::kDefinitions, .key = key, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kDefinitions, .key = key, .value = interned.definition});
  return group;
}

std::string InternKey(const Uid& hash) { return DefinitionKey(hash, 0); }

void AddOwnEvent(absl::string_view tenant, absl::string_view id, absl::string_view payload,
                 const InternedDelivery& interned, uint32_t queue_shards, absl::Time now,
                 kv::Group& group) {
  NewEvent event;
  event.client_id = id;
  event.nominal_micros = ToMicros(now);
  event.payload = payload;
  event.definition_hash = &interned.hash;
  event.priority = 5;  // as the default of events
  EventRowBuilder::Options options;
  options.tenant = std::string(tenant);
  options.queue_shards = queue_shards;
  options.now = now;
  EventRowBuilder(std::move(options)).Add(event, group);
}

std::string DeliveryPeriodBegin(DeliveryPeriod period) {
  KeyWriter key;
  key.U16(period);
  return key.Take();
}

bool IsDeliveryOfPeriod(absl::string_view key, absl::string_view value) {
  if (key.size() < Uid::kBytes || key != InternKey(Uid::FromBytes(key))) return false;
  storage::v1::DefinitionRecord definition;
  return definition.ParseFromArray(value.data(), static_cast<int>(value.size())) &&
         definition.create_time_micros() != 0;
}

}  // namespace escapement
