#include "services/token_manager/waiting/waiting_rows.h"

#include <map>
#include <random>
#include <set>
#include <string>

#include "common/base/proto_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::token_manager {
namespace waiting_rows_test {

using State = WaitingRow::State;
using storage::v1::EventRecord;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kRowsMax = 8;  // rows of a group in memory
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
const Uid kPolicy = Uid::FromHalves(1, 2);
const Uid kSchedule = Uid::FromHalves(3, 4);
const GroupKey kGroup{5, kSchedule};

WaitingKey KeyAt(absl::Duration after, uint64_t first = 0, uint8_t priority = 5) {
  return {.policy_shard = 1,
          .policy = kPolicy,
          .priority = priority,
          .uid = kSchedule,
          .due_time = kStart + after,
          .occurrence = "20270115T080000",
          .first = first};
}

EventRecord Row(uint64_t count, uint64_t taken = 0) {
  EventRecord record;
  record.set_count(count);
  record.set_version(1);
  record.mutable_throttle()->set_policy_id("policy");
  record.mutable_throttle()->set_taken(taken);
  return record;
}

// A row that was carried over to a window which opens `after` kStart.
EventRecord RowOfWindow(absl::Duration after, uint64_t count = 1) {
  EventRecord record = Row(count);
  record.mutable_throttle()->mutable_window()->set_duration_micros(3'600'000'000);
  record.mutable_throttle()->mutable_window()->set_on_close(storage::v1::ON_CLOSE_KIND_DROP);
  record.mutable_throttle()->set_window_begin_micros(ToMicros(kStart + after));
  return record;
}

class WaitingRowsTest : public testing::Test {
 protected:
  // Adds the row as the store has it; its key.
  std::string Add(const WaitingKey& key, EventRecord record) {
    const std::string encoded = EncodeWaitingKey(key);
    record.set_launch_time_micros(ToMicros(key.due_time));
    EXPECT_TRUE(rows_.Add(encoded, key, record.SerializeAsString(), 0));
    return encoded;
  }
  WaitingRow& At(const std::string& key) { return *rows_.RowOf(key); }
  State StateOf(const std::string& key) { return At(key).state(); }
  // Rows, queue and indices agree.
  static void CheckInvariants(const WaitingRows& rows) {
    size_t closings = 0;
    size_t looks = 0;
    size_t slices = 0;
    for (const auto& [group_key, group] : rows.groups_) {
      EXPECT_TRUE(group.scan != 0 || group.arrived.empty());
      EXPECT_TRUE(group.has_more() || group.scan == 0);
      EXPECT_TRUE(group.has_more() || !group.rows.empty()) << "an empty group stays";
      EXPECT_EQ(group.look != absl::InfiniteFuture(),
                rows.looks_.contains({group.look, group_key}));
      looks += group.look != absl::InfiniteFuture() ? 1 : 0;
      for (const auto& [key, row] : group.rows) {
        EXPECT_TRUE(!group.has_more() || key < group.end) << "a row behind its group's end";
        EXPECT_LE(row.taken_, row.count_);
        EXPECT_TRUE(!row.rewritten_ || row.busy() || row.state_ == State::kQueued);
        const QueuedSlice* slice = rows.queue_.Find(key);
        const bool queued =
            row.state_ == State::kQueued || (row.state_ == State::kGranting && row.left() > 0);
        EXPECT_EQ(queued, slice != nullptr);
        if (slice != nullptr) {
          EXPECT_EQ(slice->first, row.first_ + row.taken_);
          ++slices;
        }
        EXPECT_EQ(row.closes_ != absl::InfiniteFuture(),
                  rows.closings_.contains({row.closes_, key}));
        closings += row.closes_ != absl::InfiniteFuture() ? 1 : 0;
      }
    }
    EXPECT_EQ(closings, rows.closings_.size());
    for (const std::string& key : rows.misplaced_) EXPECT_TRUE(rows.queue_.Find(key) != nullptr);
    EXPECT_EQ(looks, rows.looks_.size());
    EXPECT_EQ(slices, rows.queue_.rows());
  }
  void CheckInvariants() const { CheckInvariants(rows_); }
  bool Queued(const std::string& key) { return rows_.queue().Find(key) != nullptr; }

  Totals totals_;
  WaitingRows rows_{kRowsMax, totals_};
};

using WaitingRowsDeathTest = WaitingRowsTest;

TEST_F(WaitingRowsTest, GrantedRowIsQueuedWithItsRestAndGoesWhenEmpty) {
  const std::string key = Add(KeyAt(absl::ZeroDuration()), Row(5));
  EXPECT_EQ(StateOf(key), State::kQueued);
  rows_.Grant(key, At(key), 2);
  rows_.Grant(key, At(key), 1);
  EXPECT_EQ(StateOf(key), State::kGranting);
  EXPECT_EQ(At(key).Record().throttle().taken(), 3u);
  CheckInvariants();
  EXPECT_FALSE(rows_.SettleGrant(key, *rows_.RowOf(key)));
  EXPECT_EQ(StateOf(key), State::kQueued);
  EXPECT_EQ(rows_.queue().Find(key)->first, 3u);
  rows_.Grant(key, At(key), 2);
  EXPECT_FALSE(Queued(key));
  rows_.SettleGrant(key, *rows_.RowOf(key));
  EXPECT_EQ(rows_.RowOf(key), nullptr);
  EXPECT_TRUE(rows_.empty());
  EXPECT_EQ(totals_.rows, 0u);
}

TEST_F(WaitingRowsTest, RefusedGrantGivesItsEventsBack) {
  const std::string key = Add(KeyAt(absl::ZeroDuration()), Row(5));
  rows_.Grant(key, At(key), 2);
  rows_.Grant(key, At(key), 3);
  rows_.Ungrant(key, 3);
  rows_.Ungrant(key, 2);
  rows_.SettleGrant(key, *rows_.RowOf(key));
  EXPECT_EQ(StateOf(key), State::kQueued);
  EXPECT_EQ(At(key).left(), 5u);
  EXPECT_EQ(rows_.queue().Find(key)->first, 0u);
  CheckInvariants();
}

TEST_F(WaitingRowsTest, RowRewrittenDuringAGrantIsToBeReadAgain) {
  const std::string key = Add(KeyAt(absl::ZeroDuration()), Row(2));
  rows_.Grant(key, At(key), 1);
  rows_.NoteRewritten(At(key));
  EXPECT_TRUE(rows_.SettleGrant(key, *rows_.RowOf(key)));
  rows_.Remove(key);
  EXPECT_TRUE(rows_.empty());
  CheckInvariants();
}

TEST_F(WaitingRowsTest, ActionTakesTheRowOutOfTheQueueUntilItEnds) {
  const std::string key = Add(KeyAt(absl::ZeroDuration()), Row(1));
  rows_.BeginAction(key, At(key));
  EXPECT_EQ(StateOf(key), State::kActing);
  EXPECT_FALSE(Queued(key));
  CheckInvariants();
  rows_.AbortAction(key, At(key));
  EXPECT_TRUE(Queued(key));
  rows_.BeginAction(key, At(key));
  rows_.Remove(key);
  EXPECT_TRUE(rows_.empty());
  CheckInvariants();
}

TEST_F(WaitingRowsTest, ClosingWindowIsListedUnlessTheRowFinishesLate) {
  const std::string first = Add(KeyAt(absl::ZeroDuration()), RowOfWindow(absl::ZeroDuration()));
  const std::string second = Add(KeyAt(absl::Seconds(1)), RowOfWindow(absl::ZeroDuration()));
  const absl::Time closed = kStart + absl::Hours(1);
  EXPECT_THAT(rows_.ClosedBy(closed - absl::Microseconds(1), 10), IsEmpty());
  EXPECT_THAT(rows_.ClosedBy(closed, 10), ElementsAre(first, second));
  EXPECT_THAT(rows_.ClosedBy(closed, 1), ElementsAre(first));
  rows_.FinishLate(first, At(first));
  rows_.BeginAction(second, At(second));
  EXPECT_THAT(rows_.ClosedBy(closed, 10), IsEmpty());
  rows_.AbortAction(second, At(second));
  EXPECT_THAT(rows_.ClosedBy(closed, 10), ElementsAre(second));
  CheckInvariants();
}

TEST_F(WaitingRowsTest, RowThatWaitsForItsWindowIsToHaveThatTimeInItsKey) {
  const std::string key = Add(KeyAt(absl::ZeroDuration()), RowOfWindow(absl::Hours(24)));
  Add(KeyAt(absl::Seconds(1)), Row(1));
  EXPECT_EQ(rows_.NextTime(), absl::InfinitePast());
  EXPECT_EQ(At(key).due(), kStart);
  EXPECT_EQ(At(key).may_go(), kStart + absl::Hours(24));
  EXPECT_THAT(rows_.TakeMisplaced(kStart, 10), ElementsAre(key));
  EXPECT_THAT(rows_.TakeMisplaced(kStart, 10), IsEmpty());
  rows_.BeginAction(key, At(key));
  rows_.AbortAction(key, At(key));
  EXPECT_THAT(rows_.TakeMisplaced(kStart + absl::Hours(24) - absl::Milliseconds(20), 10), IsEmpty())
      << "soon";
  EXPECT_EQ(rows_.NextTime(), kStart + kWaitsLong);
  CheckInvariants();
}

TEST_F(WaitingRowsTest, RowOfAnEvenWindowIsToHaveItsNextPlaceInItsKey) {
  EventRecord record = RowOfWindow(absl::ZeroDuration(), 60);
  record.mutable_throttle()->mutable_window()->set_even(true);
  record.mutable_throttle()->set_pace_count(60);
  const std::string key = Add(KeyAt(absl::ZeroDuration()), record);
  EXPECT_THAT(rows_.TakeMisplaced(kStart, 10), IsEmpty());
  rows_.Grant(key, At(key), 5);
  EXPECT_THAT(rows_.TakeMisplaced(kStart, 10), IsEmpty()) << "busy";
  rows_.SettleGrant(key, *rows_.RowOf(key));
  EXPECT_EQ(At(key).may_go(), kStart + absl::Minutes(5));
  EXPECT_THAT(rows_.TakeMisplaced(kStart, 10), ElementsAre(key));
  CheckInvariants();
}

TEST_F(WaitingRowsTest, GroupWithRowsThatWaitLongIsLookedAt) {
  Add(KeyAt(absl::ZeroDuration()), RowOfWindow(absl::Hours(24)));
  EXPECT_THAT(rows_.LooksBy(kStart + kWaitsLong - absl::Microseconds(1)), IsEmpty());
  EXPECT_THAT(rows_.LooksBy(kStart + kWaitsLong), ElementsAre(kGroup));
  rows_.LookLater(kGroup, kStart + absl::Hours(1));
  EXPECT_THAT(rows_.LooksBy(kStart + absl::Minutes(59)), IsEmpty());
  EXPECT_THAT(rows_.LooksBy(kStart + absl::Hours(1)), ElementsAre(kGroup));
  CheckInvariants();
}

TEST_F(WaitingRowsTest, GroupKeepsItsFirstRowsAndReadsTheOthersOn) {
  std::vector<kv::Entry> store;
  for (int i = 0; i < 20; ++i) {
    const WaitingKey key = KeyAt(absl::Seconds(i));
    const std::string encoded = Add(key, Row(1));
    store.push_back({.key = encoded, .value = Row(1).SerializeAsString()});
  }
  EXPECT_TRUE(rows_.IsBeyond(kGroup, store.back().key));
  const RowGroup& group = *rows_.GroupOf(kGroup);
  EXPECT_TRUE(group.has_more());
  EXPECT_EQ(group.rows.size(), kRowsMax);
  EXPECT_EQ(rows_.BeginReadOn(kGroup, 1), std::nullopt) << "enough are in memory";
  while (group.rows.size() > 2) {
    const std::string key = group.rows.begin()->first;
    rows_.Grant(key, At(key), 1);
    rows_.SettleGrant(key, *rows_.RowOf(key));
  }
  EXPECT_EQ(rows_.BeginReadOn(kGroup, 1), store[8].key);
  // A row arrives behind the scan's snapshot.
  const std::string late = Add(KeyAt(absl::Seconds(30)), Row(1));
  EXPECT_TRUE(rows_.IsBeyond(kGroup, late));
  kv::ScanResult rest;
  rest.entries.assign(store.begin() + 8, store.end());
  rest.more = false;
  EXPECT_FALSE(rows_.OnRead(kGroup, 2, rest));
  EXPECT_TRUE(rows_.OnRead(kGroup, 1, rest));
  EXPECT_FALSE(group.has_more());
  EXPECT_EQ(group.rows.size(), 15u);
  EXPECT_NE(rows_.RowOf(late), nullptr);
  CheckInvariants();
}

TEST_F(WaitingRowsDeathTest, IllegalTransitionsEndTheProcess) {
  const std::string key = Add(KeyAt(absl::ZeroDuration()), Row(3));
  EXPECT_DEATH(rows_.AbortAction(key, At(key)), "check failed");
  EXPECT_DEATH(rows_.NoteRewritten(At(key)), "check failed");
  EXPECT_DEATH(rows_.Grant(key, At(key), 4), "check failed");
  EXPECT_DEATH(rows_.Ungrant(key, 1), "check failed");
  rows_.Grant(key, At(key), 1);
  EXPECT_DEATH(rows_.BeginAction(key, At(key)), "check failed");
  EXPECT_DEATH(rows_.Remove(key), "check failed");
  rows_.SettleGrant(key, *rows_.RowOf(key));
  rows_.BeginAction(key, At(key));
  EXPECT_DEATH(rows_.Grant(key, At(key), 1), "check failed");
  EXPECT_DEATH(rows_.BeginAction(key, At(key)), "check failed");
  EXPECT_DEATH(rows_.Postpone(key, At(key), kStart), "check failed");
}

// Random steps beside a plain model of the store: every event is granted once, and no row is lost.
TEST_F(WaitingRowsTest, RandomStepsGrantEachEventOnce) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&random](uint64_t n) { return random() % n; };
    Totals totals;
    WaitingRows rows(kRowsMax, totals);
    std::map<std::string, EventRecord> store;
    std::map<std::string, uint64_t> granted;
    uint64_t put = 0;
    uint64_t scan = 0;
    const auto read_on = [&] {
      const auto from = rows.BeginReadOn(kGroup, ++scan);
      if (!from.has_value()) return;
      kv::ScanResult result;
      auto at = store.lower_bound(*from);
      for (; at != store.end() && result.entries.size() < kRowsMax; ++at)
        result.entries.push_back({.key = at->first, .value = at->second.SerializeAsString()});
      result.more = at != store.end();
      rows.OnRead(kGroup, scan, result);
    };
    const auto some_row = [&]() -> std::optional<std::string> {
      const RowGroup* group = rows.GroupOf(kGroup);
      if (group == nullptr || group->rows.empty()) return std::nullopt;
      return std::next(group->rows.begin(), draw(group->rows.size()))->first;
    };
    const auto grant = [&](const std::string& key) {
      WaitingRow& row = *rows.RowOf(key);
      if (row.state() != State::kQueued) return;
      const uint64_t count = 1 + draw(row.left());
      rows.Grant(key, row, count);
      if (draw(4) == 0) {
        rows.Ungrant(key, count);
        rows.SettleGrant(key, *rows.RowOf(key));
        return;
      }
      granted[key] += count;
      store[key].mutable_throttle()->set_taken(row.taken());
      if (row.left() == 0) store.erase(key);
      rows.SettleGrant(key, *rows.RowOf(key));
    };
    for (int step = 0; step < 300; ++step) {
      switch (draw(6)) {
        case 0:
        case 1: {
          const WaitingKey key = KeyAt(absl::Milliseconds(draw(1'000'000)), draw(5));
          const std::string encoded = EncodeWaitingKey(key);
          if (store.contains(encoded) || granted.contains(encoded)) break;
          const uint64_t count = 1 + draw(4);
          store[encoded] = Row(count);
          put += count;
          rows.Add(encoded, key, store[encoded].SerializeAsString(), 0);
          break;
        }
        case 2:
          read_on();
          break;
        case 3:
        case 4:
          if (const auto key = some_row()) grant(*key);
          break;
        case 5:
          if (const auto key = some_row()) {
            WaitingRow& row = *rows.RowOf(*key);
            if (row.state() != State::kQueued) break;
            rows.BeginAction(*key, row);
            CheckInvariants(rows);
            rows.AbortAction(*key, row);
          }
          break;
      }
      CheckInvariants(rows);
    }
    for (int round = 0; round < 10'000 && !rows.empty(); ++round) {
      read_on();
      if (const auto key = some_row()) grant(*key);
    }
    uint64_t all = 0;
    for (const auto& [key, count] : granted) all += count;
    EXPECT_EQ(all, put);
    EXPECT_TRUE(store.empty());
    EXPECT_EQ(totals.rows, 0u);
  }
}

}  // namespace waiting_rows_test
}  // namespace escapement::token_manager
