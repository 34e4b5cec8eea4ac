#include "services/handler/shard/due_queue.h"

#include <array>
#include <optional>

#include "gtest/gtest.h"

namespace escapement::handler {
namespace due_queue_test {

std::string Key(uint8_t lane, int64_t second, uint64_t first = 0) {
  return EncodeEventKey({.shard = 1,
                         .lane = lane,
                         .due_time = absl::FromUnixSeconds(second),
                         .uid = Uid(),
                         .occurrence = "o",
                         .first = first});
}

void Add(DueQueue& queue, uint8_t lane, int64_t second, uint64_t first = 0) {
  queue.Add(QueuedRow(Key(lane, second, first), "v", 1));
}

DueQueue::Segments All() { return DueQueue::Segments().set(); }

std::optional<QueuedRow> Take(DueQueue& queue, int64_t until,
                              const DueQueue::Segments& takeable = All(),
                              uint8_t priority_max = kNoPriority) {
  std::optional<QueuedRow> row = queue.Take(absl::FromUnixSeconds(until), takeable, priority_max);
  if (row.has_value()) queue.NoteTaken(row->standing(), 1);
  return row;
}

uint8_t TakeLane(DueQueue& queue, int64_t until) {
  const auto row = Take(queue, until);
  return row.has_value() ? LaneOfEventKey(row->key()) : kLaneCount;
}

TEST(DueQueueTest, TakesByPriorityThenDueTime) {
  DueQueue queue;
  Add(queue, 7, 10);
  Add(queue, 3, 11);
  Add(queue, 3, 10);
  Add(queue, 0, 12);
  EXPECT_EQ(queue.NextDue(absl::FromUnixSeconds(9)), absl::FromUnixSeconds(10));
  EXPECT_EQ(Take(queue, 11)->key(), Key(3, 10)) << "the row of priority 0 is not due";
  EXPECT_EQ(Take(queue, 12)->key(), Key(0, 12));
  EXPECT_EQ(Take(queue, 12)->key(), Key(3, 11));
  EXPECT_EQ(Take(queue, 12)->key(), Key(7, 10));
}

TEST(DueQueueTest, ARowReplacesTheOneWithItsKey) {
  for (const int64_t replaced : {10, 11, 12}) {
    DueQueue queue;
    for (const int64_t second : {10, 11, 12}) Add(queue, 3, second);
    const size_t bytes = queue.bytes(3);
    queue.Add(QueuedRow(Key(3, replaced), "another", 2));
    EXPECT_EQ(queue.rows(), 3u);
    EXPECT_EQ(queue.bytes(3), bytes + 6);
    for (const int64_t second : {10, 11, 12}) {
      const auto row = Take(queue, 12);
      EXPECT_EQ(row->key(), Key(3, second));
      EXPECT_EQ(row->value(), second == replaced ? "another" : "v");
    }
    EXPECT_EQ(queue.bytes(3), 0u);
  }
}

TEST(DueQueueTest, PriorityRisesByOneEachTenSeconds) {
  DueQueue queue;
  Add(queue, 2, 100);
  Add(queue, 1, 109);
  EXPECT_EQ(queue.NextPriority(absl::FromUnixSeconds(109), All()), 1);
  EXPECT_EQ(TakeLane(queue, 118), 2) << "both are 1, and this row is older";
  EXPECT_EQ(TakeLane(queue, 118), 1);
  Add(queue, 2, 100);
  Add(queue, 0, 119, 1);
  Add(queue, 0, 119, 2);
  EXPECT_EQ(TakeLane(queue, 119), 0);
  EXPECT_EQ(TakeLane(queue, 120), 2) << "both are 0, and this row is older";
  Add(queue, 9, 0);
  EXPECT_EQ(queue.NextPriority(absl::FromUnixSeconds(1000), All()), 0) << "not below 0";
}

TEST(DueQueueTest, NoRowOfAPriorityAboveTheMostIsTaken) {
  DueQueue queue;
  Add(queue, 5, 10);
  Add(queue, kLaneRetry, 10);
  EXPECT_EQ(Take(queue, 10, All(), 4), std::nullopt);
  EXPECT_EQ(Take(queue, 10, All(), 5)->key(), Key(5, 10));
  EXPECT_EQ(queue.NextPriority(absl::FromUnixSeconds(10), All()), kNoPriority);
  EXPECT_EQ(Take(queue, 10, All(), 9), std::nullopt);
  EXPECT_EQ(Take(queue, 10)->key(), Key(kLaneRetry, 10));
  EXPECT_EQ(queue.NextPriority(absl::FromUnixSeconds(10), All()), kNothingDue);
}

TEST(DueQueueTest, LateRowsHaveNoShareBeforeALowerNumber) {
  DueQueue queue;
  for (uint64_t i = 0; i < 10; ++i) {
    Add(queue, 9, 1, i);
    Add(queue, 5, 2, i);
  }
  queue.MarkLate(9, Key(9, 20));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(TakeLane(queue, 30), 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(TakeLane(queue, 30), 9);
  for (uint64_t i = 0; i < 10; ++i) Add(queue, 5, 50, i);
  int late = 0;
  for (int i = 0; i < 9; ++i) late += TakeLane(queue, 50) == 9 ? 1 : 0;
  EXPECT_EQ(late, 4) << "they have risen to 5";
}

TEST(DueQueueTest, NothingIsTakenBeforeItIsDue) {
  DueQueue queue;
  Add(queue, 0, 11);
  EXPECT_EQ(TakeLane(queue, 10), kLaneCount);
  EXPECT_EQ(queue.rows(), 1u);
}

TEST(DueQueueTest, LateRetriesGetAtMostHalfWhileOnTimeWorkWaits) {
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
  const auto slice = queue.Take(absl::FromUnixSeconds(30), All(), kNoPriority);
  queue.NoteTaken(slice->standing(), 5);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(TakeLane(queue, 30), kLaneRetry);
  EXPECT_EQ(TakeLane(queue, 30), 5);
}

TEST(DueQueueTest, LateRowsGetAtMostHalfWhileOnTimeWorkWaits) {
  DueQueue queue;
  for (uint64_t i = 0; i < 100; ++i) {
    Add(queue, 5, 1, i);
    Add(queue, 5, 20, i);
  }
  queue.MarkLate(5, Key(5, 20));
  EXPECT_EQ(queue.rows(5), 100u);
  EXPECT_EQ(queue.rows(LateSegment(5)), 100u);
  Add(queue, 5, 2);
  EXPECT_EQ(queue.rows(LateSegment(5)), 101u) << "what comes later knows the mark";
  int late = 0;
  for (int i = 0; i < 100; ++i) late += Take(queue, 30)->standing() == Standing::kLate ? 1 : 0;
  EXPECT_EQ(late, 50);
}

TEST(DueQueueTest, LateAndBackgroundRowsShareTheRest) {
  DueQueue queue;
  for (uint64_t i = 0; i < 100; ++i) {
    Add(queue, 5, 1, i);
    Add(queue, 5, 20, i);
    Add(queue, kLaneCatchUp, 1, i);
  }
  queue.MarkLate(5, Key(5, 20));
  std::array<int, 3> taken = {};
  for (int i = 0; i < 100; ++i) ++taken[static_cast<size_t>(Take(queue, 30)->standing())];
  EXPECT_EQ(taken, (std::array<int, 3>{50, 25, 25}));
}

TEST(DueQueueTest, OnlyTakeableRowsAreTaken) {
  DueQueue queue;
  Add(queue, 5, 1);
  Add(queue, 5, 20);
  Add(queue, 6, 20);
  Add(queue, kLaneRetry, 3);
  queue.MarkLate(5, Key(5, 20));
  const auto only = [](uint8_t segment) { return DueQueue::Segments().set(segment); };
  EXPECT_EQ(Take(queue, 30, only(6))->key(), Key(6, 20));
  EXPECT_EQ(Take(queue, 30, only(6)), std::nullopt);
  EXPECT_EQ(Take(queue, 30, only(LateSegment(5)))->key(), Key(5, 1));
  EXPECT_EQ(Take(queue, 30, ~only(5))->key(), Key(kLaneRetry, 3));
  EXPECT_EQ(Take(queue, 30)->key(), Key(5, 20));
}

TEST(DueQueueTest, NextDueSkipsRowsThatAreDueAlready) {
  DueQueue queue;
  Add(queue, kLaneRetry, 1);
  Add(queue, 5, 20);
  EXPECT_EQ(queue.NextDue(absl::FromUnixSeconds(0)), absl::FromUnixSeconds(1));
  EXPECT_EQ(queue.NextDue(absl::FromUnixSeconds(10)), absl::FromUnixSeconds(20));
  EXPECT_EQ(queue.NextDue(absl::FromUnixSeconds(20)), std::nullopt);
}

TEST(DueQueueTest, FirstDueIsOfOnTimeAndLateRowsOnly) {
  DueQueue queue;
  EXPECT_EQ(queue.FirstDue(), std::nullopt);
  Add(queue, kLaneRetry, 1);
  EXPECT_EQ(queue.FirstDue(), std::nullopt);
  Add(queue, 5, 20);
  Add(queue, 3, 30);
  EXPECT_EQ(queue.FirstDue(), absl::FromUnixSeconds(20));
  queue.MarkLate(3, Key(3, 40));
  Add(queue, 3, 10);
  EXPECT_EQ(queue.FirstDue(), absl::FromUnixSeconds(10));
}

TEST(DueQueueTest, LaneIsOneSegmentAfterEndLate) {
  DueQueue queue;
  Add(queue, 5, 1);
  queue.MarkLate(5, Key(5, 20));
  queue.MarkLate(5, Key(5, 10));
  EXPECT_EQ(queue.overdue_mark(5), Key(5, 20)) << "it only moves up";
  queue.Remove(Key(5, 1));
  EXPECT_EQ(queue.rows(), 0u);
  EXPECT_EQ(queue.bytes(LateSegment(5)), 0u);
  queue.EndLate(5);
  Add(queue, 5, 1);
  EXPECT_EQ(queue.rows(5), 1u);
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

TEST(DueQueueTest, TruncatedKeyIsNotAdded) {
  DueQueue queue;
  for (size_t bytes = 0; bytes < 11; ++bytes)
    queue.Add(QueuedRow(Key(5, 1).substr(0, bytes), "v", 1));
  EXPECT_EQ(queue.rows(), 0u);
  EXPECT_FALSE(queue.NextDue(absl::FromUnixSeconds(10)).has_value());
}

}  // namespace due_queue_test
}  // namespace escapement::handler
