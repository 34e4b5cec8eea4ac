#include "common/storage/one_off_rows.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/micros.h"
#include "common/storage/event_id.h"
#include "common/storage/interned_delivery.h"
#include "common/storage/name_tables.h"

namespace escapement {

std::string OneOffEventId(absl::string_view event_key, const storage::v1::EventRecord& row) {
  return row.event_id().empty() ? ServerMadeEventId(event_key) : row.event_id();
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
  // A late event is due now. So its Done record belongs to the day on which it could first be sent.
  return FromMicros(std::max(nominal_micros, ToMicros(now)));
}

EventRowBuilder::EventRowBuilder(Options options) : options_(std::move(options)) {
  row_.set_tenant(options_.tenant);
  row_.set_count(1);
  row_.set_run_count(1);
}

void EventRowBuilder::Add(const NewEvent& event, kv::Group& group) {
  const bool client_chosen = !event.client_id.empty();
  key_.lane = static_cast<uint8_t>(event.priority);
  key_.due_time = LaunchTimeOf(event.nominal_micros, options_.now);
  const int64_t launch_micros = ToMicros(key_.due_time);
  CHECK_EQ(DeliveryPeriodOf(*event.definition_hash), DeliveryPeriodOf(key_.due_time));
  if (client_chosen) {
    row_.set_event_id(event.client_id.data(), event.client_id.size());
    key_.uid = UidOfClientChosenId(options_.tenant, event.client_id);
    key_.shard = ShardOfEventId(event.client_id, options_.queue_shards);
  } else {
    row_.clear_event_id();
    // Consecutive events go to consecutive shards.
    key_.shard = static_cast<uint16_t>((options_.uid_low + added_) % options_.queue_shards);
    key_.uid = Uid::FromHalves(options_.uid_high, options_.uid_low + added_);
    ++added_;
  }
  row_.set_client_chosen_id(client_chosen);
  row_.set_definition_hash(event.definition_hash->bytes().data(), Uid::kBytes);
  row_.set_nominal_time_micros(event.nominal_micros);
  row_.set_launch_time_micros(launch_micros);
  row_.set_payload(event.payload.data(), event.payload.size());

  kv::Mutation& put = group.mutations.emplace_back();
  put.cf = kv::ColumnFamily::kEvents;
  put.key = EncodeEventKey(key_);
  row_.SerializeToString(&put.value);
  if (client_chosen) {
    storage::v1::EventNameRecord name;
    name.set_event_key(put.key);
    name.set_launch_time_micros(launch_micros);
    std::string name_key = EventNameKey(options_.tenant, event.client_id);
    group.conditions.push_back({.cf = kv::ColumnFamily::kEventNames,
                                .key = name_key,
                                .kind = kv::Condition::Kind::kAbsent});
    group.mutations.push_back({.cf = kv::ColumnFamily::kEventNames,
                               .key = std::move(name_key),
                               .value = name.SerializeAsString()});
  }
}

}  // namespace escapement
