#include "common/storage/queue_shard_slices.h"

#include <algorithm>

namespace escapement {

std::vector<std::pair<uint16_t, IndexSlice>> SplitByQueueShard(const RunIdentity& run,
                                                               uint64_t run_count, IndexSlice range,
                                                               uint32_t queue_shards) {
  std::vector<std::pair<uint16_t, IndexSlice>> parts;
  run_count = std::max<uint64_t>(run_count, 1);
  if (queue_shards == 0 || range.count == 0 || range.first >= run_count) return parts;
  const uint64_t end = range.first + std::min(range.count, run_count - range.first);
  if (run_count == 1) {
    parts.emplace_back(ShardOfEventId(run.EventId(0), queue_shards), IndexSlice{0, 1});
    return parts;
  }
  for (uint64_t index = range.first; index < end;) {
    const uint16_t shard = ShardOfIndex(run_count, index, queue_shards);
    const IndexSlice slice = SliceOfShard(run_count, shard, queue_shards);
    const uint64_t part_end = std::min(end, slice.first + slice.count);
    parts.emplace_back(shard, IndexSlice{index, part_end - index});
    index = part_end;
  }
  return parts;
}

}  // namespace escapement
