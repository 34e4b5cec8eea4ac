#include "services/handler/due_queue.h"

#include "gtest/gtest.h"

namespace escapement::handler {
namespace {

std::string Key(uint8_t lane, int64_t second, uint64_t first = 0) {
  return EncodeEventKey({.shard = 1,
                         .lane = lane,
                         .due_time = absl::FromUnixSeconds(second),
                         .uid = Uid(),
                         .occurrence = "o",
                         .first = first});
}

void Add(DueQueue& queue, uint8_t lane, int64_t second, uint64_t first = 0) {
  queue.Add({.key = Key(lane, second, first), .value = "v", .seq = 1});
}

uint8_t TakeLane(DueQueue& queue, int64_t until) {
  const auto row = queue.Take(absl::FromUnixSeconds(until));
  if (!row) return kLaneCount;
  queue.NoteTaken(row->key, 1);
  return LaneOfEventKey(row->key);
}

TEST(DueQueueTest, TakesByDueTimeThenPriority) {
  DueQueue queue;
  Add(queue, 7, 10);
  Add(queue, 0, 11);
  Add(queue, 3, 10);
  EXPECT_EQ(queue.NextDue(), absl::FromUnixSeconds(10));
  EXPECT_EQ(TakeLane(queue, 11), 3);
  EXPECT_EQ(TakeLane(queue, 11), 7);
  EXPECT_EQ(TakeLane(queue, 11), 0);
}

TEST(DueQueueTest, NothingIsTakenBeforeItIsDue) {
  DueQueue queue;
  Add(queue, 0, 11);
  EXPECT_EQ(TakeLane(queue, 10), kLaneCount);
  EXPECT_EQ(queue.rows(), 1u);
}

TEST(DueQueueTest, OverdueRetriesGetAtMostHalfWhileOnTimeWorkWaits) {
  DueQueue queue;
  for (uint64_t i = 0; i < 100; ++i) {
    Add(queue, kLaneRetry, 1, i);
    Add(queue, 5, 20, i);
  }
  int retries = 0;
  for (int i = 0; i < 100; ++i) retries += TakeLane(queue, 30) == kLaneRetry ? 1 : 0;
  EXPECT_EQ(retries, 50);
}

TEST(DueQueueTest, OneLargeSliceOfOnTimeWorkPaysForManyRetries) {
  DueQueue queue;
  for (uint64_t i = 0; i < 10; ++i) {
    Add(queue, kLaneRetry, 1, i);
    Add(queue, 5, 20, i);
  }
  const auto slice = queue.Take(absl::FromUnixSeconds(30));
  queue.NoteTaken(slice->key, 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(TakeLane(queue, 30), kLaneRetry);
  EXPECT_EQ(TakeLane(queue, 30), 5);
}

TEST(DueQueueTest, TheLatestRowsAreDroppedWhenALaneIsFull) {
  DueQueue queue;
  for (int64_t s = 0; s < 10; ++s) Add(queue, 5, s);
  EXPECT_EQ(queue.DropLast(5, 10), "");
  EXPECT_EQ(queue.DropLast(5, 4), Key(5, 4));
  EXPECT_EQ(queue.rows(5), 4u);
  for (int64_t s = 0; s < 4; ++s) queue.Remove(Key(5, s));
  EXPECT_EQ(queue.bytes(5), 0u);
}

}  // namespace
}  // namespace escapement::handler
