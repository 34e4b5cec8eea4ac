// Compares FairQueue, by random calls, with a queue that computes everything from the start.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {
namespace fair_queue_random_test {

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'800'000'000) + absl::Seconds(seconds);
}
Uid Schedule(uint64_t n) { return Uid::FromHalves(0, n); }

QueuedSlice Row(std::string key, uint64_t schedule, absl::Time due, uint64_t events,
                uint8_t priority = 5) {
  QueuedSlice slice;
  slice.key = std::move(key);
  slice.group = {priority, Schedule(schedule)};
  slice.due = due;
  slice.end = events;
  return slice;
}

// The contract of FairQueue, computed from the start at every step.
class NaiveQueue {
 public:
  void Add(const QueuedSlice& slice) {
    // A key of which this was the only slice leaves before it comes again.
    const GroupKey& id = slice.group;
    for (auto& [of, group] : groups_) {
      if (of != id) group.slices.erase(slice.key);
    }
    Settle();
    groups_[id].slices[slice.key] = slice;
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
      uint64_t& credit = by_key() ? keys_[group.key].credit : group.credit;
      if (credit > 0) {
        credit -= std::min(credit, taken);
        if (credit == 0) {
          group.turn = ++turns_;
          if (by_key()) keys_[group.key].turn = ++turns_;
        }
      }
    }
    Settle();
  }
  void BeginRound() { quanta_.clear(); }
  void Reconsider(const std::string& reason) {
    for (const bool opened : {true, false}) {
      for (Group* group : Aside(reason, opened)) TakePart(*group);
    }
    Settle();
  }
  void ReconsiderAll() {
    std::set<std::string> reasons;
    for (const auto& [id, group] : groups_) reasons.insert(group.reason);
    reasons.erase("");
    for (const std::string& reason : reasons) Reconsider(reason);
  }
  FairQueue::Woken Wake(const std::string& reason, size_t max) {
    std::vector<Group*> opened = Aside(reason, true);
    if (opened.empty()) {
      opened = Aside(reason, false);
      for (Group* group : opened) group->opened = true;
    }
    FairQueue::Woken woken;
    for (; woken.groups < std::min(max, opened.size()); ++woken.groups)
      TakePart(*opened[woken.groups]);
    woken.more = woken.groups < opened.size();
    Settle();
    return woken;
  }
  std::optional<std::pair<std::string, uint64_t>> Next(
      absl::Time now, Fairness fairness, uint64_t tokens,
      absl::FunctionRef<std::string(const QueuedSlice&)> passed_over) {
    SetFairness(fairness);
    Refresh(now);
    if (tokens == 0) return std::nullopt;
    while (true) {
      Group* best = nullptr;
      for (auto& [id, group] : groups_) {
        if (group.ready && (best == nullptr || Before(group, *best))) best = &group;
      }
      if (best == nullptr) return std::nullopt;
      best->reason = passed_over(Head(*best));
      if (best->reason.empty()) return Of(*best, tokens);
      best->ready = best->opened = false;
    }
  }
  absl::Time NextEligible(absl::Time now) {
    Refresh(now);
    absl::Time next = absl::InfiniteFuture();
    for (const auto& [id, group] : groups_) {
      const absl::Time head = HeadAt(group);
      if (head > now_) next = std::min(next, head);
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
    bool opened = false;
    std::string key;
  };
  struct Key {
    uint64_t turn = 0, credit = 0;
  };

  bool by_key() const { return fairness_ == Fairness::kByKey; }
  std::vector<Group*> Aside(const std::string& reason, bool opened) {
    std::vector<Group*> aside;
    for (auto& [id, group] : groups_) {
      if (group.reason == reason && group.opened == opened) aside.push_back(&group);
    }
    const auto age = [](const Group* group) {
      return HeadAt(*group) + kAgeingStep * group->priority;
    };
    std::stable_sort(aside.begin(), aside.end(),
                     [&](const Group* a, const Group* b) { return age(a) < age(b); });
    return aside;
  }
  void TakePart(Group& group) {
    group.reason.clear();
    group.opened = false;
    if (HeadAt(group) <= now_) Enter(group);
  }
  void SetFairness(Fairness fairness) {
    const bool keys_change = (fairness == Fairness::kByKey) != by_key();
    std::vector<Group*> ready;
    for (auto& [id, group] : groups_) {
      if (keys_change && group.ready) ready.push_back(&group);
    }
    std::sort(ready.begin(), ready.end(),
              [](const Group* a, const Group* b) { return a->turn < b->turn; });
    for (Group* group : ready) group->ready = false;
    fairness_ = fairness;
    if (!keys_change) return;
    keys_.clear();
    TakeKeys();
    for (Group* group : ready) Enter(*group);
  }
  void TakeKeys() {
    if (!by_key()) return;
    std::map<std::string, Key> keys;
    std::vector<std::pair<absl::Time, Group*>> heads;
    for (auto& [id, group] : groups_) heads.emplace_back(HeadAt(group), &group);
    std::stable_sort(heads.begin(), heads.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [head, each] : heads) {
      Group& group = *each;
      group.key = Head(group).policy_key;
      const auto known = keys_.find(group.key);
      if (known == keys_.end()) {
        keys.try_emplace(group.key, Key{.turn = ++turns_});
      } else {
        keys.emplace(*known);
      }
    }
    keys_ = keys;
  }

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
    if (by_key() && a.key != b.key) return keys_.at(a.key).turn < keys_.at(b.key).turn;
    if (fairness_ != Fairness::kFifo) return a.turn < b.turn;
    if (HeadAt(a) != HeadAt(b)) return HeadAt(a) < HeadAt(b);
    return std::make_pair(a.priority, a.uid) < std::make_pair(b.priority, b.uid);
  }
  void Enter(Group& group) {
    group.turn = ++turns_;
    group.credit = 0;
    if (by_key() && std::none_of(groups_.begin(), groups_.end(), [&](const auto& other) {
          return other.second.ready && other.second.key == group.key;
        })) {
      keys_[group.key] = {.turn = ++turns_};
    }
    group.ready = true;
  }
  // After a change of slices.
  void Settle() {
    std::erase_if(groups_, [](const auto& entry) { return entry.second.slices.empty(); });
    TakeKeys();
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
    if (fairness_ != Fairness::kFifo) {
      std::set<std::pair<uint8_t, std::string>> takers;  // by priority too: as the queue counts
      for (const auto& [id, other] : groups_) {
        if (other.ready && ClassOf(other) == ClassOf(group)) {
          takers.insert({other.priority, by_key() ? other.key : absl::StrCat(other.uid.ToHex())});
        }
      }
      const uint64_t quantum =
          quanta_.try_emplace(ClassOf(group), std::max<uint64_t>(1, tokens / takers.size()))
              .first->second;
      uint64_t& credit = by_key() ? keys_[group.key].credit : group.credit;
      credit = credit == 0 ? quantum : std::min(credit, quantum);
      count = std::min(count, credit);
    }
    return {slice.key, count};
  }

  std::map<std::pair<uint8_t, Uid>, Group> groups_;
  std::map<std::string, Key> keys_;
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
  const auto passed_over = [&](const QueuedSlice& first) {
    const uint64_t n = static_cast<unsigned char>(first.group.second.bytes()[15]);
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
        slice.policy_key =
            absl::StrCat(dice(20) == 0 ? dice(4) : slice.group.second.bytes()[15] % 4);
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
        if (dice(20) == 0) {
          queue.ReconsiderAll();
          naive.ReconsiderAll();
        } else if (dice(2) == 0) {
          queue.Reconsider(reason);
          naive.Reconsider(reason);
        } else {
          const size_t max = 1 + dice(3);
          const FairQueue::Woken woken = queue.Wake(reason, max);
          const FairQueue::Woken expected = naive.Wake(reason, max);
          ASSERT_EQ(woken.groups, expected.groups) << "step " << step;
          ASSERT_EQ(woken.more, expected.more) << "step " << step;
        }
        break;
      }
      case 5:
        if (dice(10) == 0) fairness = static_cast<Fairness>(dice(3));
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
    ASSERT_EQ(queue.NextEligible(now), naive.NextEligible(now));
  }
  EXPECT_GT(turns, 1000u);
  for (const std::string& key : naive.Keys()) queue.Remove(key);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.groups(), 0u);
  EXPECT_EQ(queue.events(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FairQueueRandomTest, testing::Range(0, 30));

}  // namespace fair_queue_random_test
}  // namespace escapement::token_manager
