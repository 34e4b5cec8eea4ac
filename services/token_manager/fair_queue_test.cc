#include "services/token_manager/fair_queue.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::token_manager {
namespace {

constexpr uint64_t kPlenty = 1'000'000'000;

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'800'000'000) + absl::Seconds(seconds);
}
Uid Schedule(uint64_t n) { return Uid::FromHalves(0, n); }
std::string Nobody(const Uid&) { return std::string(); }

QueuedSlice Row(std::string key, uint64_t schedule, absl::Time due, uint64_t events,
                uint8_t priority = 5) {
  QueuedSlice slice;
  slice.key = std::move(key);
  slice.priority = priority;
  slice.group = Schedule(schedule);
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
    granted[turn->slice->group] += turn->count;
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

TEST(PacingTest, SpreadsAndKnowsTheReverse) {
  const Pacing pacing{.begin = At(0), .duration = absl::Seconds(10), .first = 100, .count = 7};
  EXPECT_EQ(pacing.At(0), At(0));
  EXPECT_EQ(pacing.At(100), At(0));
  EXPECT_EQ(pacing.At(101), At(0) + absl::Microseconds(1'428'572));
  EXPECT_EQ(pacing.At(106), At(0) + absl::Microseconds(8'571'429));
  EXPECT_EQ(pacing.At(5000), At(10));
  EXPECT_EQ(pacing.EndAt(At(0) - absl::Nanoseconds(1)), 0u);
  EXPECT_EQ(pacing.EndAt(At(10)), ~uint64_t{0});
  for (uint64_t i = 100; i < 107; ++i) {
    EXPECT_EQ(pacing.EndAt(pacing.At(i)), i + 1);
    EXPECT_LE(pacing.EndAt(pacing.At(i) - absl::Nanoseconds(1)), i);
  }
  const Pacing large{.begin = At(0), .duration = absl::Hours(24 * 365), .count = 1'000'000'000'000};
  for (uint64_t i : {uint64_t{1}, uint64_t{999'999'999'999}, uint64_t{123'456'789'012}})
    EXPECT_GT(large.EndAt(large.At(i)), i);
  EXPECT_EQ(Pacing().EndAt(At(0)), ~uint64_t{0});
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

TEST(FairQueueTest, WhoSendsAThousandthWaitsNoLongerThanTwiceItsShare) {
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
  EXPECT_EQ(queue.NextEligible(At(90)), std::nullopt);
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
  EXPECT_TRUE(queue.Remove("a"));
  EXPECT_FALSE(queue.Remove("a"));
  EXPECT_EQ(queue.oldest_due(), std::nullopt);
}

TEST(FairQueueTest, NextChangeKnowsOfAgeing) {
  FairQueue queue;
  queue.Add(Row("a", 1, At(0), 1, /*priority=*/2));
  queue.Add(Row("b", 2, At(5), 1, /*priority=*/2));
  EXPECT_EQ(queue.NextChange(At(1)), At(5));
  EXPECT_EQ(queue.NextChange(At(5)), At(10));
  EXPECT_EQ(queue.NextChange(At(10)), At(20));
  EXPECT_EQ(queue.NextChange(At(20)), std::nullopt);
  EXPECT_EQ(queue.NextEligible(At(20)), std::nullopt);
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
  queue.Add(Row("b", 3, At(0), 5));  // of another group now
  EXPECT_EQ(queue.groups(), 2u);
  EXPECT_EQ(queue.events(), 14u);
  QueuedSlice nothing = Row("b", 3, At(0), 0);
  queue.Add(nothing);
  EXPECT_EQ(queue.rows(), 1u);
}

TEST(FairQueueTest, WhoIsPassedOverIsAskedOnceUntilReconsidered) {
  FairQueue queue;
  constexpr int kDown = 10'000;
  for (int i = 0; i < kDown; ++i) queue.Add(Row(absl::StrCat("d", i), 100 + i, At(0), 10));
  queue.Add(Row("healthy", 1, At(0), 1000));
  int asked = 0;
  const auto passed_over = [&asked](const Uid& group) {
    ++asked;
    return std::string(group == Schedule(1) ? "" : group < Schedule(5100) ? "down" : "away");
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
  EXPECT_FALSE(queue.Reconsider("gone"));
  EXPECT_TRUE(queue.Reconsider("down"));
  EXPECT_EQ(queue.groups_aside(), 5000u);
  EXPECT_EQ(NextKey(queue, At(0)), "d0");
  queue.ReconsiderAll();
  EXPECT_EQ(queue.groups_aside(), 0u);
}

TEST(FairQueueTest, WhoStandsAsideGrowsOlderAndCanGo) {
  FairQueue queue;
  queue.Add(Row("a", 1, At(0), 1, /*priority=*/3));
  queue.Add(Row("b", 2, At(0), 1, /*priority=*/3));
  queue.Next(At(0), Fairness::kBySchedule, 1, [](const Uid&) { return std::string("down"); });
  EXPECT_EQ(queue.groups_aside(), 2u);
  queue.Add(Row("a2", 1, At(1), 5, 3));  // still aside
  EXPECT_EQ(NextKey(queue, At(2)), "");
  EXPECT_TRUE(queue.Remove("b"));
  EXPECT_EQ(queue.groups_aside(), 1u);
  queue.Add(Row("urgent", 3, At(30), 1, /*priority=*/1));
  queue.Reconsider("down");
  EXPECT_EQ(NextKey(queue, At(30)), "a");
  queue.Next(At(30), Fairness::kBySchedule, 1,
             [](const Uid& group) { return std::string(group == Schedule(1) ? "away" : ""); });
  EXPECT_TRUE(queue.Remove("a"));
  EXPECT_TRUE(queue.Remove("a2"));
  EXPECT_EQ(queue.groups_aside(), 0u);
  EXPECT_FALSE(queue.Reconsider("away"));
}

// What FairQueue promises, computed anew at every step.
class NaiveQueue {
 public:
  void Add(const QueuedSlice& slice) {
    Group& group = groups_[{slice.priority, slice.group}];
    for (auto& [id, other] : groups_) {
      if (&other != &group) other.slices.erase(slice.key);
    }
    group.slices[slice.key] = slice;
    Settle();
  }
  void Remove(const std::string& key) {
    for (auto& [id, group] : groups_) group.slices.erase(key);
    Settle();
  }
  void Advance(const std::string& key, uint64_t taken) {
    for (auto& [id, group] : groups_) {
      const auto it = group.slices.find(key);
      if (it == group.slices.end()) continue;
      it->second.first += taken;
      if (it->second.first >= it->second.end) group.slices.erase(it);
      if (group.credit > 0) {
        group.credit -= std::min(group.credit, taken);
        if (group.credit == 0) group.turn = ++turns_;
      }
    }
    Settle();
  }
  void BeginRound() { quanta_.clear(); }
  void Reconsider(const std::string& reason) {
    for (auto& [id, group] : groups_) {
      if (group.reason == reason) group.reason.clear();
    }
    Settle();
  }
  std::optional<std::pair<std::string, uint64_t>> Next(
      absl::Time now, Fairness fairness, uint64_t tokens,
      absl::FunctionRef<std::string(const Uid&)> passed_over) {
    Refresh(now);
    fairness_ = fairness;
    if (tokens == 0) return std::nullopt;
    while (true) {
      Group* best = nullptr;
      for (auto& [id, group] : groups_) {
        if (group.ready && (best == nullptr || Before(group, *best))) best = &group;
      }
      if (best == nullptr) return std::nullopt;
      best->reason = passed_over(best->uid);
      if (best->reason.empty()) return Of(*best, tokens);
      best->ready = false;
    }
  }
  std::optional<absl::Time> NextEligible(absl::Time now) {
    Refresh(now);
    std::optional<absl::Time> next;
    for (const auto& [id, group] : groups_) {
      const absl::Time head = HeadAt(group);
      if (head > now_ && (!next.has_value() || head < *next)) next = head;
    }
    return next;
  }
  size_t rows() const {
    size_t rows = 0;
    for (const auto& [id, group] : groups_) rows += group.slices.size();
    return rows;
  }
  uint64_t events() const {
    uint64_t events = 0;
    for (const auto& [id, group] : groups_) {
      for (const auto& [key, slice] : group.slices) events += slice.end - slice.first;
    }
    return events;
  }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const auto& [id, group] : groups_) {
      for (const auto& [key, slice] : group.slices) keys.push_back(key);
    }
    return keys;
  }

 private:
  struct Group {
    Uid uid;
    uint8_t priority = 0;
    std::map<std::string, QueuedSlice> slices;
    bool ready = false;
    uint64_t turn = 0, credit = 0;
    std::string reason;
  };

  static absl::Time At(const QueuedSlice& slice, uint64_t index) {
    return std::max(slice.due, slice.pacing.At(index));
  }
  static const QueuedSlice& Head(const Group& group) {
    const QueuedSlice* head = nullptr;
    for (const auto& [key, slice] : group.slices) {
      if (head == nullptr || At(slice, slice.first) < At(*head, head->first)) head = &slice;
    }
    return *head;
  }
  static absl::Time HeadAt(const Group& group) { return At(Head(group), Head(group).first); }
  int ClassOf(const Group& group) const {
    absl::Time oldest = now_;
    for (const auto& [id, other] : groups_) {
      if (other.ready && other.priority == group.priority) oldest = std::min(oldest, HeadAt(other));
    }
    return std::max<int>(0, group.priority - static_cast<int>((now_ - oldest) / kAgeingStep));
  }
  bool Before(const Group& a, const Group& b) const {
    if (ClassOf(a) != ClassOf(b)) return ClassOf(a) < ClassOf(b);
    if (fairness_ == Fairness::kBySchedule) return a.turn < b.turn;
    if (HeadAt(a) != HeadAt(b)) return HeadAt(a) < HeadAt(b);
    return std::make_pair(a.priority, a.uid) < std::make_pair(b.priority, b.uid);
  }
  void Enter(Group& group) {
    group.ready = true;
    group.turn = ++turns_;
    group.credit = 0;
  }
  // After a change of slices.
  void Settle() {
    std::erase_if(groups_, [](const auto& entry) { return entry.second.slices.empty(); });
    for (auto& [id, group] : groups_) {
      group.priority = id.first;
      group.uid = id.second;
      if (!group.reason.empty()) continue;
      const bool eligible = HeadAt(group) <= now_;
      if (eligible && !group.ready) Enter(group);
      group.ready = eligible;
    }
  }
  void Refresh(absl::Time now) {
    if (now <= now_) return;
    const absl::Time before = std::exchange(now_, now);
    std::vector<std::pair<absl::Time, Group*>> due;
    for (auto& [id, group] : groups_) {
      const absl::Time head = HeadAt(group);
      if (group.reason.empty() && head > before && head <= now) due.emplace_back(head, &group);
    }
    std::stable_sort(due.begin(), due.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, group] : due) Enter(*group);
  }
  std::pair<std::string, uint64_t> Of(Group& group, uint64_t tokens) {
    const QueuedSlice& slice = Head(group);
    uint64_t count = 0;
    absl::Time until = now_;
    if (fairness_ == Fairness::kFifo && slice.pacing.count > 0) {
      for (const auto& [id, other] : groups_) {
        if (other.ready && ClassOf(other) == ClassOf(group) && &other != &group)
          until = std::min(until, HeadAt(other));
      }
      for (const auto& [key, other] : group.slices) {
        if (&other != &slice) until = std::min(until, At(other, other.first));
      }
    }
    for (uint64_t i = slice.first; i < slice.end && At(slice, i) <= until; ++i) ++count;
    count = std::min(count, tokens);
    if (fairness_ == Fairness::kBySchedule) {
      uint64_t groups = 0;
      for (const auto& [id, other] : groups_)
        groups += other.ready && ClassOf(other) == ClassOf(group);
      const uint64_t quantum =
          quanta_.try_emplace(ClassOf(group), std::max<uint64_t>(1, tokens / groups)).first->second;
      group.credit = group.credit == 0 ? quantum : std::min(group.credit, quantum);
      count = std::min(count, group.credit);
    }
    return {slice.key, count};
  }

  std::map<std::pair<uint8_t, Uid>, Group> groups_;
  std::map<int, uint64_t> quanta_;
  absl::Time now_ = absl::InfinitePast();
  Fairness fairness_ = Fairness::kBySchedule;
  uint64_t turns_ = 0;
};

class FairQueueRandomTest : public testing::TestWithParam<int> {};

TEST_P(FairQueueRandomTest, DoesWhatTheNaiveOneDoes) {
  std::mt19937_64 random(GetParam());
  const auto dice = [&random](uint64_t n) { return random() % n; };
  FairQueue queue;
  NaiveQueue naive;
  // Keeps both from being emptied: then a FairQueue forgets its time and turns.
  queue.Add(Row("end", 99, absl::InfiniteFuture(), 1));
  naive.Add(Row("end", 99, absl::InfiniteFuture(), 1));
  absl::Time now = At(0);
  Fairness fairness = Fairness::kBySchedule;
  uint64_t turns = 0;
  const auto passed_over = [&](const Uid& group) {
    const uint64_t n = static_cast<unsigned char>(group.bytes()[15]);
    return (n + static_cast<uint64_t>(absl::ToUnixSeconds(now)) / 7) % 5 == 0
               ? absl::StrCat("down", n % 3)
               : std::string();
  };
  for (int step = 0; step < 3000; ++step) {
    now += absl::Milliseconds(dice(4) == 0 ? dice(4000) : dice(300));
    switch (dice(8)) {
      case 0:
      case 1:
      case 2: {
        QueuedSlice slice = Row(absl::StrCat("k", dice(60)), dice(12),
                                now + absl::Milliseconds(static_cast<int>(dice(6000)) - 4000),
                                1 + dice(40), static_cast<uint8_t>(dice(4)));
        slice.first = dice(slice.end);
        if (dice(3) == 0) {
          slice.pacing = {.begin = now,
                          .duration = absl::Milliseconds(1 + dice(20'000)),
                          .first = dice(3),
                          .count = 1 + dice(50)};
        }
        queue.Add(slice);
        naive.Add(slice);
        break;
      }
      case 3: {
        const std::string key = absl::StrCat("k", dice(60));
        queue.Remove(key);
        naive.Remove(key);
        break;
      }
      case 4: {
        const std::string reason = absl::StrCat("down", dice(3));
        queue.Reconsider(reason);
        naive.Reconsider(reason);
        break;
      }
      case 5:
        if (dice(10) == 0)
          fairness = fairness == Fairness::kFifo ? Fairness::kBySchedule : Fairness::kFifo;
        break;
      default: {
        uint64_t tokens = dice(30);
        queue.BeginRound();
        naive.BeginRound();
        for (int i = 0; i < 20; ++i) {
          const auto turn = queue.Next(now, fairness, tokens, passed_over);
          const auto expected = naive.Next(now, fairness, tokens, passed_over);
          ASSERT_EQ(turn.has_value(), expected.has_value()) << "step " << step;
          if (!turn.has_value()) break;
          ++turns;
          ASSERT_EQ(turn->slice->key, expected->first) << "step " << step;
          ASSERT_EQ(turn->count, expected->second) << "step " << step;
          ASSERT_GE(turn->count, 1u);
          const uint64_t taken = dice(4) == 0 ? 1 + dice(turn->count) : turn->count;
          tokens -= taken;
          queue.Advance(expected->first, taken);
          naive.Advance(expected->first, taken);
        }
      }
    }
    ASSERT_EQ(queue.rows(), naive.rows());
    ASSERT_EQ(queue.events(), naive.events());
    const auto next = naive.NextEligible(now);
    ASSERT_EQ(queue.NextEligible(now), next == absl::InfiniteFuture() ? std::nullopt : next);
  }
  EXPECT_GT(turns, 1000u);
  for (const std::string& key : naive.Keys()) EXPECT_TRUE(queue.Remove(key));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.groups(), 0u);
  EXPECT_EQ(queue.events(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FairQueueRandomTest, testing::Range(0, 30));

}  // namespace
}  // namespace escapement::token_manager
