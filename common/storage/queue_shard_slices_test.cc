#include "common/storage/run_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace queue_shard_slices_test {

TEST(QueueShardSlicesTest, RangesAreSplitAsTheEmitterSplitsRuns) {
  const RunIdentity run("t", Uid(), "o");
  for (uint64_t n : {2, 5, 16, 17, 1000}) {
    for (uint64_t first = 0; first < n; first += 1 + n / 7) {
      for (uint64_t count = 1; first + count <= n; count += 1 + n / 5) {
        uint64_t next = first;
        for (const auto& [shard, slice] : SplitByQueueShard(run, n, {first, count}, 16)) {
          ASSERT_EQ(slice.first, next);
          ASSERT_GT(slice.count, 0u);
          const IndexSlice whole = SliceOfShard(n, shard, 16);
          ASSERT_GE(slice.first, whole.first);
          ASSERT_LE(slice.first + slice.count, whole.first + whole.count);
          next += slice.count;
        }
        ASSERT_EQ(next, first + count);
      }
    }
  }
  const auto one = SplitByQueueShard(run, 1, {0, 1}, 16);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].first, ShardOfEventId(run.EventId(0), 16));
  EXPECT_TRUE(SplitByQueueShard(run, 10, {10, 5}, 16).empty());
  EXPECT_TRUE(SplitByQueueShard(run, 10, {0, 0}, 16).empty());
  EXPECT_EQ(SplitByQueueShard(run, 10, {9, ~uint64_t{0}}, 1)[0].second.count, 1u);
}

}  // namespace queue_shard_slices_test
}  // namespace escapement
