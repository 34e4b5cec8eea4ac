#include "services/token_manager/turns/fair_queue.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::token_manager {
namespace fair_queue_test {

constexpr uint64_t kPlenty = 1'000'000'000;

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'800'000'000) + absl::Seconds(seconds);
}
Uid Schedule(uint64_t n) { return Uid::FromHalves(0, n); }
std::string Nobody(const QueuedSlice&) { return std::string(); }

QueuedSlice Row(std::string key, uint64_t schedule, absl::Time due, uint64_t events,
                uint8_t priority = 5) {
  QueuedSlice slice;
  slice.key = std::move(key);
  slice.group = {priority, Schedule(schedule)};
  slice.due = due;
  slice.end = events;
  return slice;
}

// Grants up to `tokens` in one round; returns schedule → events.
std::map<Uid, uint64_t> Grant(FairQueue& queue, absl::Time now, uint64_t tokens,
                              Fairness fairness = Fairness::kBySchedule) {
  std::map<Uid, uint64_t> granted;
  queue.BeginRound();
  while (const auto turn = queue.Next(now, fairness, tokens, Nobody)) {
    granted[turn->slice->group.second] += turn->count;
    tokens -= turn->count;
    queue.Advance(turn->slice->key, turn->count);
  }
  return granted;
}

std::string NextKey(FairQueue& queue, absl::Time now, Fairness fairness = Fairness::kBySchedule) {
  const auto turn = queue.Next(now, fairness, 1, Nobody);
  return turn.has_value() ? turn->slice->key : std::string();
}

// Takes one event; its row's key.
std::string TakeOne(FairQueue& queue, absl::Time now, Fairness fairness = Fairness::kBySchedule) {
  queue.BeginRound();
  const std::string key = NextKey(queue, now, fairness);
  queue.Advance(key, 1);
  return key;
}

TEST(FairQueueTest, AMillionAndTenTakeTurns) {
  FairQueue queue;
  queue.Add(Row("large", 1, At(0), 1'000'000));
  queue.Add(Row("small", 2, At(0), 10));
  EXPECT_EQ(queue.events(), 1'000'010u);
  EXPECT_EQ(queue.groups(), 2u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(TakeOne(queue, At(0)), i % 2 == 0 ? "large" : "small");
  EXPECT_EQ(TakeOne(queue, At(0)), "large");
  EXPECT_EQ(queue.rows(), 1u);
  EXPECT_EQ(queue.events(), 999'989u);
}

TEST(FairQueueTest, FreeTokensAreSharedInOneRound) {
  FairQueue queue;
  for (int i = 1; i <= 3; ++i) queue.Add(Row(absl::StrCat(i), i, At(0), 1000));
  queue.Add(Row("few", 4, At(0), 5));
  const auto granted = Grant(queue, At(0), 400);
  EXPECT_EQ(granted.at(Schedule(4)), 5u);
  uint64_t least = 1000, most = 0;
  for (int i = 1; i <= 3; ++i) {
    least = std::min(least, granted.at(Schedule(i)));
    most = std::max(most, granted.at(Schedule(i)));
  }
  EXPECT_GE(least, 100u);
  EXPECT_LE(most, 200u);
  // In the long run they are equal, whatever comes free at a time.
  std::map<Uid, uint64_t> sum = granted;
  for (uint64_t tokens : {7, 1, 13, 2, 2, 100, 5, 1, 1, 64, 64, 30, 3}) {
    for (const auto& [uid, n] : Grant(queue, At(0), tokens)) sum[uid] += n;
  }
  EXPECT_LE(sum[Schedule(1)] > sum[Schedule(2)] ? sum[Schedule(1)] - sum[Schedule(2)]
                                                : sum[Schedule(2)] - sum[Schedule(1)],
            200u);
}

// Without a common quantum for the round the first group would get 4 of 6 tokens each time.
TEST(FairQueueTest, ARoundHasOneQuantum) {
  FairQueue queue;
  queue.Add(Row("a", 1, At(0), 100'000));
  queue.Add(Row("b", 2, At(0), 100'000));
  std::map<Uid, uint64_t> sum;
  for (int i = 0; i < 100; ++i) {
    for (const auto& [uid, n] : Grant(queue, At(0), 6)) sum[uid] += n;
  }
  EXPECT_EQ(sum[Schedule(1)], 300u);
  EXPECT_EQ(sum[Schedule(2)], 300u);
}

TEST(FairQueueTest, SenderOfAThousandthWaitsAtMostTwiceItsShare) {
  FairQueue queue;
  constexpr int kTokenEveryMillis = 10;
  uint64_t number = 0;
  absl::Duration longest;
  std::map<std::string, absl::Time> small_due;
  for (int millis = 0; millis < 100'000; millis += kTokenEveryMillis) {
    const absl::Time now = At(millis / 1000.0);
    queue.Add(Row(absl::StrCat("large", number++), 1, now, 1000));
    if (millis % 1000 == 0) {
      const std::string key = absl::StrCat("small", number++);
      small_due[key] = now;
      queue.Add(Row(key, 2, now, 10));
    }
    const std::string key = TakeOne(queue, now);
    if (small_due.contains(key)) longest = std::max(longest, now - small_due[key]);
  }
  // Ten events at every second token: 200 ms.
  EXPECT_LE(longest, absl::Milliseconds(2 * 10 * 2 * kTokenEveryMillis));
  EXPECT_GT(longest, absl::Milliseconds(100));
}

TEST(FairQueueTest, FifoGrantsTheEarliestDueFirst) {
  FairQueue queue;
  queue.Add(Row("c", 1, At(3), 2));
  queue.Add(Row("a", 1, At(1), 2));
  queue.Add(Row("b", 2, At(2), 2));
  queue.Add(Row("d", 3, At(4), 1));
  std::string order;
  for (int i = 0; i < 7; ++i) order += TakeOne(queue, At(9), Fairness::kFifo);
  EXPECT_EQ(order, "aabbccd");
}

TEST(FairQueueTest, FifoInterleavesPacedEventsByTheirPlaceInTheWindow) {
  FairQueue queue;
  QueuedSlice paced = Row("p", 1, At(0), 10);
  paced.pacing = {.begin = At(0), .duration = absl::Seconds(10), .first = 0, .count = 10};
  queue.Add(paced);
  queue.Add(Row("x", 2, At(3.5), 1));
  queue.Add(Row("y", 1, At(5.5), 1));
  std::string order;
  while (const auto turn = queue.Next(At(8), Fairness::kFifo, kPlenty, Nobody)) {
    absl::StrAppend(&order, turn->slice->key, turn->count);
    queue.Advance(turn->slice->key, turn->count);
  }
  EXPECT_EQ(order, "p4x1p2y1p3");
}

TEST(FairQueueTest, FairnessCanChange) {
  FairQueue queue;
  queue.Add(Row("late", 1, At(2), 10));
  queue.Add(Row("early", 2, At(1), 10));
  EXPECT_EQ(NextKey(queue, At(3), Fairness::kFifo), "early");
  queue.Add(Row("later", 3, At(2.5), 10));
  EXPECT_EQ(TakeOne(queue, At(3), Fairness::kBySchedule), "early");
  EXPECT_EQ(TakeOne(queue, At(3), Fairness::kBySchedule), "late");
  EXPECT_EQ(TakeOne(queue, At(3), Fairness::kFifo), "early");
  EXPECT_EQ(TakeOne(queue, At(3), Fairness::kFifo), "early");
}

TEST(FairQueueTest, LowerPriorityWaitsForAtMostItsAgeing) {
  for (const Fairness fairness : {Fairness::kBySchedule, Fairness::kFifo}) {
    FairQueue queue;
    queue.Add(Row("old", 1, At(0), 2, /*priority=*/4));
    uint64_t number = 0;
    std::vector<double> granted;
    for (double second = 0; second < 60; second += 0.5) {
      // More urgent events than tokens, for ever new and old schedules.
      queue.Add(Row(absl::StrCat("n", number), 2 + number % 3, At(second), 2, /*priority=*/0));
      ++number;
      if (TakeOne(queue, At(second), fairness) == "old") granted.push_back(second);
    }
    ASSERT_EQ(granted.size(), 2u);
    EXPECT_GE(granted[0], 40.0);  // not before: priority 0 is promised
    EXPECT_LE(granted[1], 40.0 + 0.5 * 2 * 4);
  }
}

TEST(FairQueueTest, AnOldBacklogDoesNotOutrankItsEquals) {
  FairQueue queue;
  queue.Add(Row("large", 1, At(0), 1'000'000));
  EXPECT_EQ(TakeOne(queue, At(3600)), "large");
  queue.Add(Row("small", 2, At(3600), 2));
  queue.Add(Row("behind", 3, At(3600), 2, /*priority=*/6));
  EXPECT_EQ(TakeOne(queue, At(3600)), "large");
  EXPECT_EQ(TakeOne(queue, At(3600)), "small");
  EXPECT_EQ(TakeOne(queue, At(3600)), "large");
  EXPECT_EQ(TakeOne(queue, At(3600)), "small");
  EXPECT_EQ(TakeOne(queue, At(3600)), "large");
  EXPECT_EQ(TakeOne(queue, At(3660)), "behind");
  EXPECT_EQ(TakeOne(queue, At(3660)), "large");
}

TEST(FairQueueTest, APacedSliceGivesWhatMayGo) {
  FairQueue queue;
  QueuedSlice slice = Row("p", 1, At(0), 100);
  slice.first = 10;
  slice.pacing = {.begin = At(0), .duration = absl::Seconds(90), .first = 10, .count = 90};
  queue.Add(slice);
  EXPECT_EQ(Grant(queue, At(0) - absl::Nanoseconds(1), kPlenty).size(), 0u);
  EXPECT_EQ(queue.NextEligible(At(0) - absl::Nanoseconds(1)), At(0));
  EXPECT_EQ(Grant(queue, At(0), kPlenty)[Schedule(1)], 1u);
  EXPECT_EQ(queue.NextEligible(At(0)), At(1));
  EXPECT_EQ(NextKey(queue, At(0.999)), "");
  EXPECT_EQ(Grant(queue, At(5.5), kPlenty)[Schedule(1)], 5u);
  EXPECT_EQ(queue.Find("p")->first, 16u);
  EXPECT_EQ(queue.NextEligible(At(5.5)), At(6));
  EXPECT_EQ(Grant(queue, At(90), kPlenty)[Schedule(1)], 84u);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.NextEligible(At(90)), absl::InfiniteFuture());
}

TEST(FairQueueTest, NothingBeforeItIsDue) {
  FairQueue queue;
  queue.Add(Row("b", 1, At(10), 1));
  queue.Add(Row("a", 1, At(20), 1));
  EXPECT_EQ(NextKey(queue, At(9)), "");
  EXPECT_EQ(queue.NextEligible(At(9)), At(10));
  EXPECT_EQ(queue.oldest_due(), At(10));
  EXPECT_EQ(TakeOne(queue, At(10)), "b");
  EXPECT_EQ(NextKey(queue, At(19)), "");
  EXPECT_EQ(queue.oldest_due(), At(20));
  queue.Remove("a");
  queue.Remove("a");
  EXPECT_EQ(queue.oldest_due(), absl::InfiniteFuture());
}

TEST(FairQueueTest, AnIncreasedSliceReplacesTheFormerAndKeepsItsTurn) {
  FairQueue queue;
  queue.Add(Row("a", 1, At(0), 10));
  queue.Add(Row("b", 2, At(0), 10));
  EXPECT_EQ(TakeOne(queue, At(0)), "a");
  queue.Add(Row("b", 2, At(0), 20));  // the commit failed, say
  EXPECT_EQ(queue.events(), 29u);
  EXPECT_EQ(queue.rows(), 2u);
  EXPECT_EQ(TakeOne(queue, At(0)), "b");
  queue.Add(Row("b", 3, At(0), 5));  // in another group now
  EXPECT_EQ(queue.groups(), 2u);
  EXPECT_EQ(queue.events(), 14u);
  QueuedSlice nothing = Row("b", 3, At(0), 0);
  queue.Add(nothing);
  EXPECT_EQ(queue.rows(), 1u);
}

TEST(FairQueueTest, SchedulePassedOverIsAskedOnceUntilReconsidered) {
  FairQueue queue;
  constexpr int kDown = 10'000;
  for (int i = 0; i < kDown; ++i) queue.Add(Row(absl::StrCat("d", i), 100 + i, At(0), 10));
  queue.Add(Row("healthy", 1, At(0), 1000));
  int asked = 0;
  const auto passed_over = [&asked](const QueuedSlice& first) {
    ++asked;
    return std::string(first.group.second == Schedule(1)     ? ""
                       : first.group.second < Schedule(5100) ? "down"
                                                             : "away");
  };
  for (int i = 0; i < 1000; ++i) {
    const auto turn = queue.Next(At(0), Fairness::kBySchedule, 1, passed_over);
    ASSERT_TRUE(turn.has_value());
    EXPECT_EQ(turn->slice->key, "healthy");
    queue.Advance("healthy", 1);
  }
  EXPECT_EQ(asked, kDown + 1000);
  EXPECT_EQ(queue.groups_aside(), 10'000u);
  EXPECT_EQ(queue.Next(At(0), Fairness::kBySchedule, 1, passed_over), std::nullopt);
  queue.Reconsider("gone");
  EXPECT_EQ(queue.groups_aside(), 10'000u);
  queue.Reconsider("down");
  EXPECT_EQ(queue.groups_aside(), 5000u);
  EXPECT_EQ(NextKey(queue, At(0)), "d0");
  queue.ReconsiderAll();
  EXPECT_EQ(queue.groups_aside(), 0u);
}

TEST(FairQueueTest, ScheduleThatStandsAsideGrowsOlderAndCanGo) {
  FairQueue queue;
  queue.Add(Row("a", 1, At(0), 1, /*priority=*/3));
  queue.Add(Row("b", 2, At(0), 1, /*priority=*/3));
  queue.Next(At(0), Fairness::kBySchedule, 1,
             [](const QueuedSlice&) { return std::string("down"); });
  EXPECT_EQ(queue.groups_aside(), 2u);
  queue.Add(Row("a2", 1, At(1), 5, 3));  // still aside
  EXPECT_EQ(NextKey(queue, At(2)), "");
  queue.Remove("b");
  EXPECT_EQ(queue.groups_aside(), 1u);
  queue.Add(Row("urgent", 3, At(30), 1, /*priority=*/1));
  queue.Reconsider("down");
  EXPECT_EQ(NextKey(queue, At(30)), "a");
  queue.Next(At(30), Fairness::kBySchedule, 1, [](const QueuedSlice& first) {
    return std::string(first.group.second == Schedule(1) ? "away" : "");
  });
  queue.Remove("a");
  queue.Remove("a2");
  EXPECT_EQ(queue.groups_aside(), 0u);
  queue.Reconsider("away");
  EXPECT_EQ(queue.groups(), 1u);
}

QueuedSlice RowOf(std::string key, uint64_t schedule, std::string policy_key, uint64_t events,
                  absl::Time due = At(0)) {
  QueuedSlice slice = Row(std::move(key), schedule, due, events);
  slice.policy_key = std::move(policy_key);
  return slice;
}

// Grants one event at a time; key of the policy → events.
std::map<std::string, uint64_t> OfKeys(FairQueue& queue, int events) {
  std::map<std::string, uint64_t> granted;
  for (int i = 0; i < events; ++i) {
    queue.BeginRound();
    const auto turn = queue.Next(At(1), Fairness::kByKey, 1, Nobody);
    if (!turn.has_value()) break;
    ++granted[turn->slice->policy_key];
    queue.Advance(std::string(turn->slice->key), 1);
  }
  return granted;
}

using OfKey = std::map<std::string, uint64_t>;

TEST(FairQueueByKeyTest, KeysTakeTurnsHoweverManySchedulesEachHas) {
  FairQueue queue;
  for (uint64_t schedule = 0; schedule < 50; ++schedule)
    queue.Add(RowOf(absl::StrCat("busy", schedule), schedule, "busy", 10));
  queue.Add(RowOf("calm", 50, "calm", 100));
  queue.Add(RowOf("none", 51, "", 100));
  EXPECT_EQ(OfKeys(queue, 90), (OfKey{{"busy", 30}, {"calm", 30}, {"", 30}}));
}

TEST(FairQueueByKeyTest, SchedulesOfAKeyTakeItsTurns) {
  FairQueue queue;
  queue.Add(RowOf("a", 1, "k", 100));
  queue.Add(RowOf("b", 2, "k", 100));
  queue.Add(RowOf("c", 3, "l", 100));
  std::map<std::string, int> rows;
  for (int i = 0; i < 40; ++i) ++rows[TakeOne(queue, At(1), Fairness::kByKey)];
  EXPECT_EQ(rows, (std::map<std::string, int>{{"a", 10}, {"b", 10}, {"c", 20}}));
}

TEST(FairQueueByKeyTest, ShareOfARoundIsThatOfAKey) {
  FairQueue queue;
  for (uint64_t schedule = 0; schedule < 9; ++schedule)
    queue.Add(RowOf(absl::StrCat("busy", schedule), schedule, "busy", 100));
  queue.Add(RowOf("calm", 50, "calm", 1000));
  std::map<Uid, uint64_t> granted = Grant(queue, At(1), 200, Fairness::kByKey);
  EXPECT_EQ(granted[Schedule(50)], 100u);
}

TEST(FairQueueByKeyTest, TurnsChangeWithThePolicysFairness) {
  FairQueue queue;
  for (uint64_t schedule = 0; schedule < 9; ++schedule)
    queue.Add(RowOf(absl::StrCat("busy", schedule), schedule, "busy", 1000));
  queue.Add(RowOf("calm", 50, "calm", 1000));
  EXPECT_EQ((Grant(queue, At(1), 100, Fairness::kBySchedule)[Schedule(50)]), 10u);
  EXPECT_EQ((Grant(queue, At(1), 100, Fairness::kByKey)[Schedule(50)]), 50u);
  EXPECT_EQ((Grant(queue, At(1), 100, Fairness::kBySchedule)[Schedule(50)]), 10u);
}

TEST(FairQueueByKeyTest, GroupFollowsItsFirstRowToAnotherKey) {
  FairQueue queue;
  queue.Add(RowOf("a", 1, "old", 1));
  queue.Add(RowOf("b", 1, "new", 100, At(0.5)));
  queue.Add(RowOf("c", 2, "new", 100));
  queue.Add(RowOf("d", 3, "other", 100));
  EXPECT_EQ(OfKeys(queue, 3), (OfKey{{"old", 1}, {"new", 1}, {"other", 1}}));
  EXPECT_EQ(OfKeys(queue, 20), (OfKey{{"new", 10}, {"other", 10}}));
}

TEST(FairQueueByKeyTest, GroupsThatStandAsideHoldUpNoOtherOfTheirKey) {
  FairQueue queue;
  queue.Add(RowOf("a", 1, "k", 100));
  queue.Add(RowOf("b", 2, "k", 100));
  queue.Add(RowOf("c", 3, "l", 100));
  const auto down = [](const QueuedSlice& slice) { return slice.key == "a" ? "down" : ""; };
  std::map<std::string, int> rows;
  for (int i = 0; i < 20; ++i) {
    queue.BeginRound();
    const std::string key = queue.Next(At(1), Fairness::kByKey, 1, down)->slice->key;
    ++rows[key];
    queue.Advance(key, 1);
  }
  EXPECT_EQ(rows, (std::map<std::string, int>{{"b", 10}, {"c", 10}}));
  EXPECT_EQ(queue.groups_aside(), 1u);
  queue.Reconsider("down");
  EXPECT_EQ(OfKeys(queue, 20), (OfKey{{"k", 10}, {"l", 10}}));
}

}  // namespace fair_queue_test
}  // namespace escapement::token_manager
