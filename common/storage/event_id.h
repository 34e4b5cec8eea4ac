// The ids of events.
//
// An event of a schedule has the id hash(tenant, uid, occurrence, index), 32 hex digits. It is the
// same after every crash and on every attempt.
//
// A one-off event with a server-made id: the id encodes shard, lane, due time and uid, so its row
// is found without an index.
//
// A one-off event with a client-chosen id has that id. Its uid is a hash of tenant and id.

#ifndef COMMON_STORAGE_EVENT_ID_H_
#define COMMON_STORAGE_EVENT_ID_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"
#include "common/storage/event_table.h"

namespace escapement {

// The common part of the ids of a run's events. Makes each id without hashing that part again.
class RunIdentity {
 public:
  RunIdentity(absl::string_view tenant, const Uid& uid, absl::string_view occurrence);
  std::string EventId(uint64_t index) const;

 private:
  std::string prefix_;
};

// The queue shard of a run's event. In a run of one event, the event's id decides. In larger runs,
// shard k holds the contiguous slice that SliceOfShard gives.
uint16_t ShardOfEventId(absl::string_view event_id, uint32_t queue_shards);

struct IndexSlice {
  uint64_t first = 0;
  uint64_t count = 0;
};
// The slice of shard k of `shards` in a run of n events. The slices are contiguous and complete,
// and their sizes differ by at most one.
IndexSlice SliceOfShard(uint64_t n, uint32_t shard, uint32_t shards);

// The shard whose slice has this index.
uint16_t ShardOfIndex(uint64_t n, uint64_t index, uint32_t shards);

// The id of a one-off event; event_table.h has the same for an encoded key.
std::string ServerMadeEventId(const EventKey& key);
// nullopt if the id does not have that form.
std::optional<EventKey> ParseServerMadeEventId(absl::string_view event_id);

Uid UidOfClientChosenId(absl::string_view tenant, absl::string_view event_id);

}  // namespace escapement

#endif  // COMMON_STORAGE_EVENT_ID_H_
