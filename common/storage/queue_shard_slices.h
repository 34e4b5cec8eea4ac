// Splits the events of a run by queue shard. In a run of one event its id decides; larger runs have
// contiguous slices (event_id.h). The shard of an event holds its row of `events` and its Done
// record.
//
// Pure.

#ifndef COMMON_STORAGE_QUEUE_SHARD_SLICES_H_
#define COMMON_STORAGE_QUEUE_SHARD_SLICES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/storage/event_id.h"

namespace escapement {

// Splits events [range.first, range.first + range.count) of a run of `run_count` events by queue
// shard, in ascending order. Indices beyond the run are left out.
std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_QUEUE_SHARD_SLICES_H_
