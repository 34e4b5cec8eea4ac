// The identity of events.
//
// Events of a schedule: hash(tenant, uid, occurrence, index), 32 hex digits; the same after every
// crash and on every attempt. One-off events with a server-made id: the id encodes shard, lane, due
// time and uid, so that the row is found without an index. One-off events with a client-chosen id:
// that id; their uid is a hash of tenant and id.

#ifndef COMMON_STORAGE_EVENT_ID_H_
#define COMMON_STORAGE_EVENT_ID_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"
#include "common/storage/event_table.h"

namespace escapement {

// What all events of one run have in common; makes their ids without hashing the rest again.
class RunIdentity {
 public:
  RunIdentity(absl::string_view tenant, const Uid& uid, absl::string_view occurrence);
  std::string EventId(uint64_t index) const;

 private:
  std::string prefix_;
};

// The queue shard of a run's event with this index: runs of one event by their id; of larger ones
// shard k holds the contiguous slice that SliceOfShard gives.
uint16_t ShardOfEventId(absl::string_view event_id, uint32_t queue_shards);

struct IndexSlice {
  uint64_t first = 0;
  uint64_t count = 0;
};
// The slice of shard k of `shards` for a run of n: contiguous, complete, sizes differ by at most
// one.
IndexSlice SliceOfShard(uint64_t n, uint32_t shard, uint32_t shards);

// The shard whose slice has this index.
uint16_t ShardOfIndex(uint64_t n, uint64_t index, uint32_t shards);

// 44 lower-case base32hex digits for the `events` key of a one-off event.
std::string ServerMadeEventId(const EventKey& key);
// As above, of the key's bytes.
std::string ServerMadeEventId(absl::string_view event_key);
// nullopt if the id is not of that form.
std::optional<EventKey> ParseServerMadeEventId(absl::string_view event_id);

Uid UidOfClientChosenId(absl::string_view tenant, absl::string_view event_id);

}  // namespace escapement

#endif  // COMMON_STORAGE_EVENT_ID_H_
