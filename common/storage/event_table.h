// The column families `events`, the queue rows, and `parked`, where rows of paused schedules wait.
//
// events: queue shard (u16), lane (u8), due_time, uid (16 bytes), occurrence (text), first index
// (u64) → EventRecord.
//
// parked: uid, then the whole `events` key → EventRecord. If the record has a `throttle`, it is the
// whole `waiting` key instead (waiting_table.h).
//
// One-off events have the empty occurrence and first index 0.

#ifndef COMMON_STORAGE_EVENT_TABLE_H_
#define COMMON_STORAGE_EVENT_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

namespace escapement {

// Lanes 0–9 are the priorities.
inline constexpr uint8_t kLaneRetry = 10;
inline constexpr uint8_t kLaneCatchUp = 11;
inline constexpr uint8_t kLaneCount = 12;

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

}  // namespace escapement

#endif  // COMMON_STORAGE_EVENT_TABLE_H_
