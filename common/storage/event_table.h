// Keys of the column families `done` (DoneKey), `events` and `parked` (EventKey). Also the rows of
// one-off events (EventRowBuilder) and how they are delivered (InternedDelivery).

#ifndef COMMON_STORAGE_EVENT_TABLE_H_
#define COMMON_STORAGE_EVENT_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// The `done` column family: how events ended. Rows are ordered by the UTC day of their launch time,
// so that a day can be deleted as one range.
//
// queue shard (u16), day since 1970 (u32), uid (16 bytes), occurrence (text), first index (u64) →
// DoneRecord

struct DoneKey {
  uint16_t shard = 0;
  uint32_t day = 0;  // DoneDay(launch time), the same for every attempt of an event
  Uid uid;
  std::string occurrence;
  uint64_t first = 0;

  friend bool operator==(const DoneKey&, const DoneKey&) = default;
};

// Whole UTC days since 1970; 0 for earlier times.
uint32_t DoneDay(absl::Time launch_time);

std::string EncodeDoneKey(const DoneKey& key);
std::optional<DoneKey> DecodeDoneKey(absl::string_view key);

// The first key of a day in a shard.
std::string DoneDayKey(uint16_t shard, uint32_t day);
// The prefix of all rows of a uid on that day (DoneUidPrefix), and of all rows of one run of it
// (DoneRunPrefix).
std::string DoneUidPrefix(uint16_t shard, uint32_t day, const Uid& uid);
std::string DoneRunPrefix(uint16_t shard, uint32_t day, const Uid& uid,
                          absl::string_view occurrence);

// DoneRecordOf: the part of a Done record that it repeats from the row whose events have ended.
//
// Pure.
//
// Sets tenant, event id, version, attempts, the attempts that the row remembers, times of the
// occurrence, and what the row says about its run. The caller sets count, outcome, reason, output,
// and the last attempt with the times of dispatch and completion.
storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row);

// The column families `events`, the queue rows, and `parked`, where rows of paused schedules wait.
//
// events: queue shard (u16), lane (u8), due_time, uid (16 bytes), occurrence (text), first index
// (u64) → EventRecord.
//
// parked: uid, then the whole `events` key → EventRecord. If the record has a `throttle`, it is the
// whole `waiting` key instead (waiting_table.h).
//
// One-off events have the empty occurrence and first index 0.

// Lanes 0–9 are the priorities.
inline constexpr uint8_t kLaneRetry = 10;
inline constexpr uint8_t kLaneCatchUp = 11;
// The lanes of rows that handlers claim.
inline constexpr uint8_t kLaneCount = 12;
// One-off events under a policy: they are claimed through their rows in `waiting`.
inline constexpr uint8_t kLaneLimited = 12;

struct EventKey {
  uint16_t shard = 0;
  uint8_t lane = 0;
  absl::Time due_time;
  Uid uid;
  std::string occurrence;
  uint64_t first = 0;

  friend bool operator==(const EventKey&, const EventKey&) = default;
};

std::string EncodeEventKey(const EventKey& key);
std::optional<EventKey> DecodeEventKey(absl::string_view key);

// The first key of a lane with `due_time` or later; InfinitePast: the first key of the lane.
std::string EventLaneKey(uint16_t shard, uint8_t lane, absl::Time due_time);
// Begin of a shard's keys, and their exclusive end.
std::string EventShardBegin(uint16_t shard);
std::string EventShardEnd(uint16_t shard);

std::string ParkedKey(const Uid& uid, absl::string_view event_key);
std::string ParkedPrefix(const Uid& uid);
// The `events` key inside a parked key; empty if that is malformed.
std::string EventKeyOfParked(absl::string_view parked_key);

// The id of a one-off event: 44 lower-case base32hex digits that encode its `events` key.
std::string ServerMadeEventId(absl::string_view event_key);

// The rows of one-off events, for every writer that creates events.
//
// An event is one row in `events`, and under a policy a second one in `waiting`. How it is
// delivered is stored once for many events (deliveries).
//
// Pure.

// The id of the one-off event of this row or Done record. It is the stored id or, if none is
// stored, the server-made id that follows from the key. (A row of a retry has another key than the
// one its id was made of, so it stores the id.)
//
// Row: an EventRecord, or a class with the same getters. So it is in the functions below.
template <typename Row>
std::string OneOffEventId(absl::string_view event_key, const Row& row) {
  return row.event_id().empty() ? ServerMadeEventId(event_key) : std::string(row.event_id());
}
// The id as the consumer receives it: see Event.event_id.
std::string DeliveredEventId(std::string event_id, uint64_t generation);
std::string EndedEventId(const DoneKey& key, const storage::v1::DoneRecord& done);

// The present event of a client-chosen id, which a new one replaces or follows.
struct NamedBefore {
  std::string name;           // bytes of its EventNameRecord
  kv::CommitSeq read_at = 0;  // they were read then; 0: the store reads them again
  Uid uid;                    // for the new one
  // These two are the new one's.
  uint64_t generation = 0;
  uint64_t revision = 0;
  // When the present one was debounced first; 0: it does not wait, or is not debounced.
  int64_t debounced_since_micros = 0;
};

// One new event, already validated.
struct NewEvent {
  absl::string_view client_id;  // empty: a server-made id
  int64_t nominal_micros = 0;   // if before now: sent at once
  absl::string_view payload;
  const Uid* definition_hash = nullptr;  // interned for the event's launch time
  uint32_t priority = 0;
  int64_t max_lateness_micros = 0;  // EventRecord.max_lateness_micros
  // Under a policy: its throttle, and the group in which it waits (WaitGroupOf). Null: it goes out
  // when it is due.
  const storage::v1::ThrottleRecord* throttle = nullptr;
  Uid wait_group = {};
  const NamedBefore* before = nullptr;  // null: the id is new
  int64_t debounced_since_micros = 0;   // see EventNameRecord
};

// When a new event is due: at its nominal time, or now if that has passed. So its Done record
// belongs to the day on which it could first be sent.
inline int64_t LaunchMicrosOf(int64_t nominal_micros, int64_t now_micros) {
  return std::max(nominal_micros, now_micros);
}
absl::Time LaunchTimeOf(int64_t nominal_micros, absl::Time now);

// True if an attempt of the event has begun or may have begun.
template <typename Row>
bool MayHaveBegun(const Row& row) {
  return row.attempts() > 0 || row.lost_claims() > 0 || row.redrives() > 0 || row.maybe_sent();
}
// From then on no first attempt of a one-off event may begin (Event.max_lateness): it ends as
// expired, for the reason MissedBy. InfiniteFuture: there is no such time.
template <typename Row>
absl::Time MissedAt(const Row& row) {
  if (row.max_lateness_micros() == 0 || MayHaveBegun(row)) return absl::InfiniteFuture();
  return FromMicros(row.nominal_time_micros()) + absl::Microseconds(row.max_lateness_micros());
}
// How late the event is at `now`: "missed by 49h0m", below an hour "missed by 5m30s".
std::string MissedBy(const storage::v1::EventRecord& row, absl::Time now);

// Makes the rows of events that are created together. A server-made id needs no condition, because
// its uid is new (128 random bits for the batch, plus a count). A client-chosen id adds its
// event_names row and, as the group's last condition, that this row is absent, or that of the event
// before.
class EventRowBuilder {
 public:
  struct Options {
    std::string tenant;
    uint32_t queue_shards = 1;
    uint32_t policy_shards = 1;
    absl::Time now;  // store time
    // Random bits; only for server-made ids.
    uint64_t uid_high = 0;
    uint64_t uid_low = 0;
    std::string trace_parent = {};  // EventRecord.trace_parent
  };
  explicit EventRowBuilder(Options options);

  // Adds the event to `group`.
  void Add(const NewEvent& event, kv::Group& group);
  // The id of the event that was added last.
  std::string event_id() const;
  const Uid& uid() const { return key_.uid; }

 private:
  const Options options_;
  const int64_t now_micros_;
  uint64_t added_ = 0;
  // The event that was added last: its key, and its client-chosen id.
  EventKey key_;
  std::string client_id_;
};

// How one-off events are delivered, stored once for all that are delivered alike and are due in the
// same period of 28 days. It is a definition of version 0; its key in `definitions` begins with the
// number of the period. So old periods can be found and deleted
// (services/master/events/delivery_sweep_loop.h). Its create_time is the begin of the period.
//
// Definitions of version 0 without a create_time are of an earlier form, whose keys begin with no
// period. They stay.
//
// Pure.

// The number of a period of due times; the first one begins at the Unix epoch.
using DeliveryPeriod = uint16_t;
DeliveryPeriod DeliveryPeriodOf(absl::Time due);
DeliveryPeriod DeliveryPeriodOf(int64_t due_micros);

// The same delivery in the same period always has the same hash and bytes.
struct InternedDelivery {
  Uid hash;                // EventRecord.definition_hash: the period, and a hash of the delivery
  std::string definition;  // the serialized DefinitionRecord
};
// `due`: of the event that uses it, or of another one of the same period.
InternedDelivery Intern(const storage::v1::DeliveryRecord& delivery, absl::Time due);
DeliveryPeriod DeliveryPeriodOf(const Uid& hash);
// EventRecord.definition_hash; nullopt: it is no one-off event.
std::optional<Uid> DeliveryHashOf(const storage::v1::EventRecord& event);

// The group that stores the definition. If it is already stored, the group does not apply, which is
// as good. Put it before the groups of the events.
kv::Group InternGroup(const InternedDelivery& interned);
std::string InternKey(const Uid& hash);  // a key of `definitions`

// Adds a one-off event of the platform's own, such as a notification, that is due now, and the
// condition that its id is new. Its delivery must be stored before (InternGroup).
void AddOwnEvent(absl::string_view tenant, absl::string_view id, absl::string_view payload,
                 const InternedDelivery& interned, uint32_t queue_shards, absl::Time now,
                 kv::Group& group);

// The first key of `definitions` that a delivery of this period can have. Definitions of schedules,
// whose keys begin with random bytes, are between those of deliveries.
std::string DeliveryPeriodBegin(DeliveryPeriod period);
// True if the row of `definitions` is a delivery of a period.
bool IsDeliveryOfPeriod(absl::string_view key, absl::string_view value);

}  // namespace escapement

#endif  // COMMON_STORAGE_EVENT_TABLE_H_
