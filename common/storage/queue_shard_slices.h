// Which queue shard which events of a run belong to: runs of one event by its id, larger ones by
// contiguous slices (event_id.h). It is where their rows of `events` and their Done records are.
//
// Pure.

#ifndef COMMON_STORAGE_QUEUE_SHARD_SLICES_H_
#define COMMON_STORAGE_QUEUE_SHARD_SLICES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/storage/event_id.h"

namespace escapement {

// The parts of events [range.first, range.first + range.count) of a run of `run_count` by the queue
// shard to whose slice they belong, ascending. What is beyond the run is left out.
std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_QUEUE_SHARD_SLICES_H_
