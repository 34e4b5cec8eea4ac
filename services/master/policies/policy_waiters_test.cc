#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/master/policies/policy_usage.h"

namespace escapement::master {
namespace policy_waiters_test {

const absl::Time kBegin = absl::FromUnixSeconds(1'000'000);

absl::Time At(int seconds) { return kBegin + absl::Seconds(seconds); }

// Events [first, first + count), due at kBegin.
DueEvents Due(storage::v1::EventRecord row, int now, uint64_t first = 0) {
  WaitingKey key;
  key.due_time = kBegin;
  key.first = first;
  return DueOf(key, row, At(now));
}

storage::v1::EventRecord Row(uint64_t count, uint64_t taken = 0) {
  storage::v1::EventRecord row;
  row.set_count(count);
  row.mutable_throttle()->set_taken(taken);
  return row;
}

// Ten events, spread over 100 s from kBegin + begin on.
storage::v1::EventRecord Paced(uint64_t taken, int begin = 0) {
  storage::v1::EventRecord row = Row(10, taken);
  row.mutable_throttle()->mutable_window()->set_duration_micros(100'000'000);
  row.mutable_throttle()->mutable_window()->set_even(true);
  row.mutable_throttle()->set_window_begin_micros(ToMicros(At(begin)));
  row.mutable_throttle()->set_pace_first(0);
  row.mutable_throttle()->set_pace_count(10);
  return row;
}

TEST(DueOf, EventsOfARowWaitOnceItIsDueButForThoseThatWereTaken) {
  EXPECT_EQ(Due(Row(10), -1).count, 0u);
  EXPECT_EQ(Due(Row(10), 0).count, 10u);
  EXPECT_EQ(Due(Row(10, 4), 5).count, 6u);
  EXPECT_EQ(Due(Row(10, 4), 5).oldest, kBegin);
  EXPECT_EQ(Due(Row(10, 10), 5).count, 0u);
}

TEST(DueOf, EventOfAnEvenWindowWaitsOnlyOnceItsPlaceHasCome) {
  EXPECT_EQ(Due(Paced(0), 0).count, 1u);
  EXPECT_EQ(Due(Paced(0), 9).count, 1u);
  EXPECT_EQ(Due(Paced(0), 10).count, 2u);
  EXPECT_EQ(Due(Paced(2), 10).count, 0u);
  EXPECT_EQ(Due(Paced(5), 10).count, 0u);
  EXPECT_EQ(Due(Paced(2), 35).count, 2u);
  EXPECT_EQ(Due(Paced(2), 35).oldest, At(20));
  EXPECT_EQ(Due(Paced(0), 89).count, 9u);
  EXPECT_EQ(Due(Paced(0), 90).count, 10u);
  EXPECT_EQ(Due(Paced(0), 1'000'000).count, 10u);
}

TEST(DueOf, ASliceOfAPacedRunIsPacedByItsPlaceInTheRun) {
  storage::v1::EventRecord retry = Paced(0);
  retry.set_count(1);
  EXPECT_EQ(Due(retry, 59, /*first=*/6).count, 0u);
  EXPECT_EQ(Due(retry, 60, /*first=*/6).count, 1u);
  EXPECT_EQ(Due(retry, 70, /*first=*/6).oldest, At(60));
}

TEST(DueOf, ARowThatWasCarriedOverWaitsFromTheNextWindowOn) {
  EXPECT_EQ(Due(Paced(0, /*begin=*/500), 400).count, 0u);
  EXPECT_EQ(Due(Paced(0, /*begin=*/500), 515).count, 2u);
  EXPECT_EQ(Due(Paced(0, /*begin=*/500), 515).oldest, At(500));
}

TEST(DueOf, ARecordThatMakesNoSenseCrashesNothing) {
  storage::v1::EventRecord row = Paced(0);
  row.mutable_throttle()->mutable_window()->set_duration_micros(-5);
  row.mutable_throttle()->set_pace_count(~uint64_t{0});
  row.mutable_throttle()->set_pace_first(~uint64_t{0});
  row.mutable_throttle()->set_window_begin_micros(0);
  EXPECT_LE(Due(row, 10).count, 10u);
}

TEST(WaitingTally, SumsByScheduleAndShowsTheLargestFirst) {
  const Uid a = Uid::FromHalves(0, 1), b = Uid::FromHalves(0, 2), c = Uid::FromHalves(0, 3);
  WaitingTally tally;
  tally.Add(a, {.count = 1, .oldest = At(1)});
  tally.Add(b, {.count = 5, .oldest = At(3)});
  tally.Add(a, {.count = 2, .oldest = At(2)});
  tally.Add(c, {});
  EXPECT_EQ(tally.count(), 8u);
  EXPECT_EQ(tally.oldest(), At(1));
  const auto waiters = tally.Largest(10);
  ASSERT_EQ(waiters.size(), 2u);
  EXPECT_EQ(waiters[0].schedule, b);
  EXPECT_EQ(waiters[1].count, 3u);
  EXPECT_EQ(waiters[1].oldest, At(1));
  EXPECT_EQ(tally.Largest(1).size(), 1u);
}

}  // namespace policy_waiters_test
}  // namespace escapement::master
