// Keys of a policy: their limits, rates and turns, overrides, retries that keep their tokens,
// pauses that consumers ask for, and the last hour.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/one_off_events.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_keys_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

class KeysTest : public OneOffsTest {
 protected:
  static storage::v1::PolicyRecord PerKey(uint64_t max_concurrent, uint64_t per_key) {
    storage::v1::PolicyRecord limits = TokenWorld::Limits(max_concurrent);
    limits.mutable_per_key()->set_max_concurrent(per_key);
    limits.set_hold_timeout_micros(absl::ToInt64Microseconds(absl::Hours(2)));
    return limits;
  }
  void BeginByKey(uint64_t max_concurrent, uint64_t per_key) {
    policy_ = world_.PutPolicy("p", PerKey(max_concurrent, per_key));
    world_.Start("a");
    world_.Advance(kSettle);
  }
  void AddOf(const std::string& key, int count) {
    for (int i = 0; i < count; ++i) key_of_[Add({.policy_key = key})] = key;
  }
  // How many of each key are in `out`.
  std::map<std::string, int> Keys(const std::vector<SentEvent>& out) {
    std::map<std::string, int> keys;
    for (const SentEvent& event : out) ++keys[key_of_.at(event.uid)];
    return keys;
  }

  std::map<Uid, std::string> key_of_;
};

using Count = std::map<std::string, int>;

TEST_F(KeysTest, NoKeyHasMoreOutThanItMay) {
  BeginByKey(/*max_concurrent=*/5, /*per_key=*/2);
  AddOf("busy", 20);
  AddOf("calm", 1);
  AddOf("", 3);
  std::vector<SentEvent> out = Settle();
  EXPECT_EQ(Keys(out), (Count{{"", 2}, {"busy", 2}, {"calm", 1}}));
  size_t ended = 0;
  while (!out.empty()) {
    std::map<std::string, int> keys = Keys(out);
    for (const auto& [key, count] : keys) EXPECT_LE(count, 2) << key;
    for (const SentEvent& event : out) EXPECT_TRUE(world_.Complete("a", event));
    ended += out.size();
    out = Settle();
  }
  EXPECT_EQ(ended, 24u);
  ExpectOnlyOutcomes(24);
}

TEST_F(KeysTest, TokenOfAKeyThatComesBackGoesToTheSameKey) {
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/1);
  AddOf("a", 3);
  AddOf("b", 3);
  const std::vector<SentEvent> out = Settle();
  ASSERT_EQ(Keys(out), (Count{{"a", 1}, {"b", 1}}));
  for (const SentEvent& event : out) {
    if (key_of_[event.uid] != "b") continue;
    EXPECT_TRUE(world_.Complete("a", event));
  }
  EXPECT_EQ(Keys(Settle()), (Count{{"b", 1}}));
}

TEST_F(KeysTest, AnotherTokenManagerKnowsWhoHoldsWhat) {
  BeginByKey(/*max_concurrent=*/10, /*per_key=*/1);
  AddOf("a", 2);
  ASSERT_EQ(Settle().size(), 1u);
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Seconds(20));
  AddOf("b", 2);
  EXPECT_EQ(Keys(Settle()), (Count{{"b", 1}}));
}

TEST_F(KeysTest, ChangedLimitHoldsFromThenOn) {
  BeginByKey(/*max_concurrent=*/10, /*per_key=*/1);
  AddOf("a", 6);
  ASSERT_EQ(Settle().size(), 1u);
  world_.PutPolicy("p", PerKey(10, 3));
  const std::vector<SentEvent> more = Settle();
  EXPECT_EQ(more.size(), 2u);
  world_.PutPolicy("p", PerKey(10, 1));
  world_.Advance(kSettle);
  EXPECT_TRUE(world_.Complete("a", more[0]));
  EXPECT_TRUE(Settle().empty()) << "two are out still, and one may be";
  world_.PutPolicy("p", TokenWorld::Limits(10));
  EXPECT_EQ(Settle().size(), 3u) << "keys have no limit any more";
}

TEST_F(KeysTest, SchedulesAndOneOffsShareTheirKey) {
  const TokenWorld::Schedule schedule{.policy_id = "p", .policy_key = "shared"};
  const TokenWorld::Schedule other{.policy_id = "p", .policy_key = "other"};
  const Uid uid = world_.AddSchedule("s", schedule);
  const Uid other_uid = world_.AddSchedule("o", other);
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/2);
  world_.AddRow(uid, schedule, {.due = world_.now(), .count = 10, .run_kept = true});
  world_.AddRow(other_uid, other, {.due = world_.now(), .count = 10, .run_kept = true});
  AddOf("shared", 10);
  std::map<std::string, int> out;
  for (const SentEvent& event : Settle()) ++out[event.uid == other_uid ? "other" : "shared"];
  EXPECT_EQ(out, (Count{{"other", 2}, {"shared", 2}}));
}

TEST_F(KeysTest, RowsOfAScheduleFollowItToAnotherKey) {
  TokenWorld::Schedule schedule{.policy_id = "p", .policy_key = "full"};
  const Uid uid = world_.AddSchedule("s", schedule);
  const std::string key =
      world_.AddRow(uid, schedule, {.due = world_.now(), .count = 2, .run_kept = true});
  // Triggered, so that the run stays wanted by another version.
  storage::v1::EventRecord row = world_.Waiting().at(0).second;
  row.set_triggered(true);
  world_.Put(ColumnFamily::kWaiting, key, row.SerializeAsString());
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/1);
  ASSERT_EQ(world_.Handle().size(), 1u);
  EXPECT_TRUE(Settle().empty()) << "the key is full";
  schedule.policy_key = "free";
  schedule.version = 2;
  world_.AddDefinition(uid, schedule);
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  EXPECT_EQ(Settle().size(), 1u);
  EXPECT_EQ(world_.Held(policy_), 2u);
}

// A former version's event loses its token while the present version's events wait for their key.
// It waits behind them, and it is not wanted any more.
TEST_F(KeysTest, SupersededRowDoesNotWaitForAnotherVersionsKey) {
  world_.retry.set_max_attempts(5);
  TokenWorld::Schedule schedule{.policy_id = "p", .policy_key = "former"};
  const Uid uid = world_.AddSchedule("s", schedule);
  world_.AddRow(uid, schedule, {.due = world_.now(), .occurrence = "20260301T000000-0-UTC"});
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/1);
  ASSERT_EQ(world_.Handle().size(), 1u);
  world_.Advance(absl::Hours(1));
  schedule.policy_key = "full";
  schedule.version = 2;
  world_.ChangeSchedule(uid, schedule, {.due = world_.now(), .count = 2});
  ASSERT_EQ(Settle().size(), 1u);
  ASSERT_EQ(world_.Held(policy_), 2u);
  world_.Advance(absl::Hours(1));
  ASSERT_EQ(world_.Held(policy_), 1u) << "its hold is over";
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 1u);
  ASSERT_EQ(world_.Waiting().size(), 1u);
  EXPECT_EQ(world_.Waiting()[0].second.throttle().policy_key(), "full");
}

storage::v1::PolicyRecord KeyRate(double per_second, uint64_t burst) {
  storage::v1::PolicyRecord limits = TokenWorld::Limits(0);
  limits.mutable_per_key()->set_max_per_second(per_second);
  limits.mutable_per_key()->set_burst(burst);
  return limits;
}

class KeyRatesTest : public KeysTest {
 protected:
  void Begin(double per_second, uint64_t burst) {
    policy_ = world_.PutPolicy("p", KeyRate(per_second, burst));
    world_.Start("a");
    world_.Advance(kSettle);
  }
  // How many events of each key go out within this time.
  Count Within(absl::Duration time) {
    world_.Advance(time);
    Count keys = Keys(world_.Handle([](const SentEvent& event) {
      return TokenWorld::EntryOf(event, GrantReportRecord::SUCCEEDED);
    }));
    return keys;
  }
  size_t RateRows() {
    size_t rows = 0;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kGrants))
      rows += DecodeKeyRateKey(key).has_value() ? 1 : 0;
    return rows;
  }
};

TEST_F(KeyRatesTest, EachKeyHasItsOwn) {
  Begin(/*per_second=*/0.1, /*burst=*/2);
  AddOf("a", 10);
  AddOf("b", 1);
  EXPECT_EQ(Within(absl::Seconds(1)), (Count{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(Within(absl::Seconds(10)), (Count{{"a", 1}}));
  EXPECT_EQ(Within(absl::Seconds(30)), (Count{{"a", 3}}));
  AddOf("b", 3);
  EXPECT_EQ(Within(absl::Seconds(1)), (Count{{"b", 2}}));
}

TEST_F(KeyRatesTest, NothingIsLeftOfAKeyWhoseBurstIsFullAgain) {
  Begin(/*per_second=*/0.1, /*burst=*/2);
  AddOf("a", 2);
  AddOf("b", 1);
  EXPECT_EQ(Within(absl::Seconds(1)), (Count{{"a", 2}, {"b", 1}}));
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(RateRows(), 2u);
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(RateRows(), 1u);
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(RateRows(), 0u);
  ExpectOnlyOutcomes(3);
}

TEST_F(KeyRatesTest, NothingIsLeftOfARateThatHasBeenTakenAway) {
  Begin(/*per_second=*/1e-6, /*burst=*/1);
  AddOf("a", 1);
  EXPECT_EQ(Within(absl::Seconds(1)), (Count{{"a", 1}}));
  world_.Advance(kSettle);
  EXPECT_EQ(RateRows(), 1u);
  world_.PutPolicy("p", TokenWorld::Limits(0));
  world_.Advance(kSettle);
  EXPECT_EQ(RateRows(), 0u);
}

TEST_F(KeyRatesTest, AnotherTokenManagerGrantsNoSecondBurst) {
  Begin(/*per_second=*/0.01, /*burst=*/2);
  AddOf("a", 5);
  EXPECT_EQ(Within(absl::Seconds(1)), (Count{{"a", 2}}));
  world_.Advance(kSettle);
  world_.Kill("a");
  world_.Start("b");
  EXPECT_EQ(Within(absl::Seconds(60)), Count());
  EXPECT_EQ(Within(absl::Seconds(60)), (Count{{"a", 1}}));
}

// Also if none of its events waits when it takes over.
TEST_F(KeyRatesTest, AnotherTokenManagerKnowsRatesOfIdleKeys) {
  Begin(/*per_second=*/0.01, /*burst=*/1);
  AddOf("a", 1);
  EXPECT_EQ(Within(absl::Seconds(1)), (Count{{"a", 1}}));
  world_.Advance(kSettle);
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Seconds(30));
  AddOf("a", 1);
  EXPECT_EQ(Within(absl::Seconds(30)), Count());
  EXPECT_EQ(Within(absl::Seconds(60)), (Count{{"a", 1}}));
}

class OverridesTest : public KeysTest {
 protected:
  // Puts `limits` with one override, for a minute from now.
  void Override(storage::v1::PolicyRecord limits,
                const std::function<void(storage::v1::OverrideRecord&)>& set) {
    storage::v1::OverrideRecord& override = *limits.add_overrides();
    override.set_expire_time_micros(ToMicros(world_.now() + absl::Minutes(1)));
    set(override);
    world_.PutPolicy("p", limits);
  }
  Count GiveBackAndSettle(const std::vector<SentEvent>& out) {
    for (const SentEvent& event : out) EXPECT_TRUE(world_.Complete("a", event));
    out_ = Settle();
    return Keys(out_);
  }

  std::vector<SentEvent> out_;
};

TEST_F(OverridesTest, LowersThePolicysLimitAndEndsByItself) {
  BeginByKey(/*max_concurrent=*/4, /*per_key=*/100);
  AddOf("a", 40);
  std::vector<SentEvent> out = Settle();
  ASSERT_EQ(out.size(), 4u);
  Override(PerKey(4, 100), [](auto& override) { override.set_max_concurrent(1); });
  world_.Advance(kSettle);
  EXPECT_EQ(GiveBackAndSettle(out), (Count{{"a", 1}}));
  EXPECT_EQ(GiveBackAndSettle(out_), (Count{{"a", 1}}));
  world_.Advance(absl::Minutes(1));
  EXPECT_EQ(Settle().size(), 3u) << "four are out again";
}

TEST_F(OverridesTest, OverrideOfAKeyLeavesOthersAlone) {
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/1);
  AddOf("a", 9);
  AddOf("b", 9);
  ASSERT_EQ(Settle().size(), 2u);
  Override(PerKey(0, 1), [](auto& override) {
    override.set_policy_key("a");
    override.set_max_concurrent(5);
  });
  EXPECT_EQ(Keys(Settle()), (Count{{"a", 4}}));
}

TEST_F(OverridesTest, OverrideOfZeroStopsThePolicy) {
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/1);
  Override(PerKey(0, 1), [](auto& override) { override.set_max_concurrent(0); });
  world_.Advance(kSettle);
  AddOf("a", 1);
  EXPECT_TRUE(Settle().empty());
  world_.Advance(absl::Minutes(1));
  EXPECT_EQ(Settle().size(), 1u);
}

TEST_F(OverridesTest, AnotherTokenManagerKeepsIt) {
  BeginByKey(/*max_concurrent=*/0, /*per_key=*/3);
  Override(PerKey(0, 3), [](auto& override) {
    override.set_policy_key("a");
    override.set_max_per_second(0.1);
    override.set_burst(1);
  });
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Seconds(20));
  AddOf("a", 9);
  EXPECT_EQ(Settle().size(), 1u);
  EXPECT_TRUE(Settle().empty()) << "the rate of the override";
  world_.Advance(absl::Seconds(35));
  EXPECT_EQ(Settle().size(), 2u);
}

class KeptTokensTest : public KeysTest {
 protected:
  void BeginInOrder() {
    limits_ = PerKey(/*max_concurrent=*/0, /*per_key=*/1);
    limits_.set_keep_token(true);
    policy_ = world_.PutPolicy("p", limits_);
    world_.Start("a");
    world_.Advance(kSettle);
  }
  // Its uids in the order of their due times.
  std::vector<Uid> AddInOrder(const std::string& key, int count) {
    std::vector<Uid> order;
    for (int i = 0; i < count; ++i) {
      order.push_back(Add({.due = world_.now() + absl::Milliseconds(i), .policy_key = key}));
      key_of_[order.back()] = key;
    }
    return order;
  }
  // The events that are out. The first attempt of each fails and is to be repeated after a minute.
  std::vector<SentEvent> FailFirst() {
    world_.Advance(kSettle);
    return world_.Handle([&](const SentEvent& event) -> std::optional<Entry> {
      if (event.attempts > 0) return TokenWorld::EntryOf(event, GrantReportRecord::SUCCEEDED);
      Entry entry = TokenWorld::EntryOf(event, GrantReportRecord::RETRY);
      entry.set_retry_at_micros(ToMicros(world_.now() + absl::Minutes(1)));
      entry.set_attempts(1);
      entry.set_reason("busy");
      entry.set_attempt(storage::v1::AttemptRecord::FAILED);
      return entry;
    });
  }

  storage::v1::PolicyRecord limits_;
};

TEST_F(KeptTokensTest, NoEventOvertakesOneThatIsToBeRetried) {
  BeginInOrder();
  const std::vector<Uid> order = AddInOrder("k", 3);
  std::vector<Uid> sent;
  for (int i = 0; i < 6; ++i) {
    const std::vector<SentEvent> out = FailFirst();
    ASSERT_EQ(out.size(), 1u);
    sent.push_back(out[0].uid);
    EXPECT_EQ(out[0].attempts, static_cast<uint32_t>(i % 2));
    if (i % 2 == 0) {
      world_.Advance(absl::Seconds(30));
      EXPECT_EQ(world_.Held(policy_), 1u) << "it keeps its token";
      EXPECT_TRUE(world_.Handle().empty());
      world_.Advance(absl::Seconds(30));
    }
  }
  EXPECT_EQ(sent, (std::vector<Uid>{order[0], order[0], order[1], order[1], order[2], order[2]}));
  ExpectOnlyOutcomes(3);
  EXPECT_EQ(world_.Done()[0].attempts(), 2u);
  const storage::v1::PolicyCountsRecord counts = world_.Counts(policy_);
  EXPECT_EQ(counts.granted(), counts.released());
}

TEST_F(KeptTokensTest, AlsoAfterATakeover) {
  BeginInOrder();
  const std::vector<Uid> order = AddInOrder("k", 2);
  ASSERT_EQ(FailFirst().size(), 1u);
  world_.Advance(kSettle);
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Seconds(40));
  EXPECT_TRUE(world_.Handle().empty());
  world_.Advance(absl::Seconds(30));
  const std::vector<SentEvent> again = FailFirst();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].uid, order[0]);
  EXPECT_EQ(again[0].attempts, 1u);
}

TEST_F(KeptTokensTest, WorkThatFailsKeepsItsToken) {
  world_.retry.set_max_attempts(3);
  world_.retry.set_min_backoff_micros(60'000'000);
  world_.retry.set_max_backoff_micros(60'000'000);
  BeginInOrder();
  const std::vector<Uid> order = AddInOrder("k", 2);
  std::vector<Uid> sent;
  for (int i = 0; i < 200; ++i) {
    for (const SentEvent& event : Settle()) {
      sent.push_back(event.uid);
      EXPECT_TRUE(world_.Complete("a", event, GrantReportRecord::COMPLETION_FAILED));
    }
  }
  EXPECT_EQ(sent, (std::vector<Uid>{order[0], order[0], order[0], order[1], order[1], order[1]}));
  ExpectOnlyOutcomes(2);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 2u);
}

TEST_F(KeptTokensTest, RetryThatCannotBeSentKeepsItsPlace) {
  BeginInOrder();
  const std::vector<Uid> order = AddInOrder("k", 2);
  ASSERT_EQ(FailFirst().size(), 1u);
  world_.Advance(absl::Seconds(61));
  std::vector<SentEvent> out = Settle(Reports(GrantReportRecord::RETURNED));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].uid, order[0]);
  out = FailFirst();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].uid, order[0]);
  EXPECT_EQ(out[0].attempts, 1u);
}

TEST_F(KeptTokensTest, PausedPolicyTriesNothingAgain) {
  BeginInOrder();
  AddInOrder("k", 2);
  ASSERT_EQ(FailFirst().size(), 1u);
  limits_.set_paused(true);
  world_.PutPolicy("p", limits_);
  world_.Advance(absl::Minutes(2));
  EXPECT_TRUE(world_.Handle().empty());
  limits_.set_paused(false);
  world_.PutPolicy("p", limits_);
  EXPECT_EQ(FailFirst().size(), 1u);
}

// A run that is cancelled leaves no event that sleeps.
TEST_F(KeptTokensTest, CancelledRunGivesItsTokenBack) {
  world_.retry.set_keep(true);
  TokenWorld::Schedule schedule{.policy_id = "p", .policy_key = "k"};
  const Uid uid = world_.AddSchedule("s", schedule);
  world_.AddRow(uid, schedule, {.due = world_.now(), .count = 2, .run_kept = true});
  BeginInOrder();
  ASSERT_EQ(FailFirst().size(), 1u);
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Part(uid, "o1", policy_).running(), 1u);
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED, 1);
  world_.Advance(absl::Minutes(2));
  EXPECT_TRUE(world_.Handle().empty());
  EXPECT_EQ(world_.Held(policy_), 0u);
  EXPECT_TRUE(world_.Waiting().empty());
  EXPECT_TRUE(world_.Grants().empty());
  EXPECT_EQ(world_.Part(uid, "o1", policy_).running(), 0u);
}

class PausesTest : public KeysTest {
 protected:
  // Attempts that arrive within this time, each answered by a pause of 30 s.
  Count AskForPauses(absl::Duration time) {
    Count arrived;
    for (const absl::Time end = world_.now() + time; world_.now() < end;) {
      world_.Advance(absl::Milliseconds(100));
      for (const auto& [key, count] :
           Keys(world_.Handle([&](const SentEvent& event) -> std::optional<Entry> {
             if (key_of_[event.uid] == "calm")
               return TokenWorld::EntryOf(event, GrantReportRecord::SUCCEEDED);
             Entry entry = TokenWorld::EntryOf(event, GrantReportRecord::RETRY);
             const int64_t until = ToMicros(world_.now() + absl::Seconds(30));
             entry.set_retry_at_micros(until);
             entry.set_paused_until_micros(until);
             entry.set_attempts(event.attempts + 1);
             entry.set_attempt(storage::v1::AttemptRecord::FAILED);
             return entry;
           })))
        arrived[key] += count;
    }
    return arrived;
  }
};

TEST_F(PausesTest, KeyThatAsksForPausesHoldsUpNoOther) {
  BeginByKey(/*max_concurrent=*/100, /*per_key=*/4);
  AddOf("asks", 50);
  AddOf("calm", 50);
  EXPECT_EQ(AskForPauses(absl::Seconds(29)), (Count{{"asks", 4}, {"calm", 50}}));
  Count later = AskForPauses(absl::Minutes(2));
  EXPECT_GE(later["asks"], 3);
  EXPECT_LE(later["asks"], 5);
  world_.Advance(absl::Seconds(31));
  size_t ended = 0;
  for (int i = 0; i < 200 && ended < 50; ++i) {
    world_.Advance(absl::Milliseconds(500));
    ended += world_
                 .Handle([](const SentEvent& event) {
                   Entry entry = TokenWorld::EntryOf(event, GrantReportRecord::SUCCEEDED);
                   entry.set_attempts(event.attempts + 1);
                   return entry;
                 })
                 .size();
  }
  EXPECT_EQ(ended, 50u) << "after an answer that asks for no pause all go on";
  ExpectOnlyOutcomes(100);
}

TEST_F(PausesTest, WithoutKeysTheTargetIsPaused) {
  policy_ = world_.PutPolicy("p", TokenWorld::Limits(3));
  world_.Start("a");
  world_.Advance(kSettle);
  AddOf("", 20);
  for (int i = 0; i < 20; ++i) key_of_[Add({.target = "other", .policy_key = "calm"})] = "calm";
  Count arrived = AskForPauses(absl::Seconds(29));
  EXPECT_LE(arrived[""], 3);
  EXPECT_EQ(arrived["calm"], 20);
}

TEST_F(KeysTest, LastHourIsKept) {
  BeginByKey(/*max_concurrent=*/2, /*per_key=*/2);
  AddOf("a", 5);
  Add({.due = world_.now() + absl::Hours(5), .policy_key = "a"});
  ASSERT_EQ(Settle().size(), 2u);
  world_.Advance(absl::Minutes(70));
  storage::v1::PolicyHistoryRecord history;
  const auto rows = world_.Rows(ColumnFamily::kGrants);
  const auto row = rows.find(PolicyHistoryKey(TokenWorld::ShardOf(policy_), policy_));
  ASSERT_NE(row, rows.end());
  ASSERT_TRUE(history.ParseFromString(row->second));
  ASSERT_EQ(history.samples_size(), 60);
  for (const auto& sample : history.samples()) {
    EXPECT_EQ(sample.held(), 2u);
    EXPECT_EQ(sample.waiting(), 3u) << "one is due later";
    EXPECT_EQ(sample.max_concurrent(), 2u);
  }
  EXPECT_LT(world_.now() - FromMicros(history.samples(59).time_micros()), absl::Seconds(61));
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Minutes(2));
  ASSERT_TRUE(
      history.ParseFromString(world_.Rows(ColumnFamily::kGrants)
                                  .at(PolicyHistoryKey(TokenWorld::ShardOf(policy_), policy_))));
  EXPECT_EQ(history.samples_size(), 60);
  EXPECT_LT(world_.now() - FromMicros(history.samples(59).time_micros()), absl::Seconds(61));
}

}  // namespace token_manager_keys_test
}  // namespace escapement::token_manager
