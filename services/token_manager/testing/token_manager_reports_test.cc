#include <algorithm>
#include <map>

#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_reports_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

// One schedule under one policy, its event(s) granted and in a handler's hands.
class ReportsTest : public ::testing::Test {
 protected:
  void Grant(uint64_t count, uint64_t limit, bool on_release = true) {
    schedule_ = {.policy_id = "p", .on_release = on_release};
    policy_ = world_.PutPolicy("p", TokenWorld::Limits(limit));
    uid_ = world_.AddSchedule("s", schedule_);
    world_.AddRow(uid_, schedule_, {.due = world_.now(), .count = count, .run_kept = true});
    world_.Start("a");
    world_.Advance(kSettle);
  }
  storage::v1::RunPartRecord Part() { return world_.Part(uid_, "o1", policy_); }
  static Entry Of(const SentEvent& event, GrantReportRecord::Kind kind) {
    return TokenWorld::EntryOf(event, kind);
  }

  TokenWorld world_;
  TokenWorld::Schedule schedule_;
  Uid policy_;
  Uid uid_;
};

TEST_F(ReportsTest, SucceededEndsTheEvent) {
  Grant(3, 3, /*on_release=*/false);
  ASSERT_EQ(world_.Grants().size(), 1);  // a range is one grant
  ASSERT_EQ(world_.Handle().size(), 3);
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Held(policy_), 0);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 3);
  EXPECT_EQ(Part().succeeded(), 3);
  EXPECT_EQ(Part().delivered(), 3);
  EXPECT_EQ(Part().running(), 0);
  EXPECT_GT(Part().last_end_time_micros(), 0);
}

// The time of an event that holds its token goes on until the token is back.
TEST_F(ReportsTest, RunPartHasTheSlowestEventsAndItsTokens) {
  Grant(12, 12);
  const absl::Time dispatched = world_.now();
  const std::vector<SentEvent> out = world_.Handle([&](const SentEvent& event) {
    Entry entry = Of(event, GrantReportRecord::DELIVERED);
    entry.set_dispatch_time_micros(ToMicros(dispatched));
    return entry;
  });
  ASSERT_EQ(out.size(), 12u);
  for (const SentEvent& event : out) {
    world_.Advance(absl::Seconds(1));
    EXPECT_TRUE(world_.Complete("a", event));
  }
  world_.Advance(kSettle);
  EXPECT_EQ(Part().tokens(), 12);
  EXPECT_EQ(Part().never_started(), 0);
  ASSERT_EQ(Part().slowest_size(), 10);
  EXPECT_EQ(Part().slowest(0).index(), out.back().index);
  EXPECT_EQ(Part().slowest(0).duration_micros(),
            Part().last_end_time_micros() - ToMicros(dispatched));
  EXPECT_EQ(Part().slowest(9).index(), out[2].index);
}

TEST_F(ReportsTest, RunWithoutWindowOrOnCompleteHasNoSlowestEvents) {
  schedule_ = {.policy_id = "p", .on_release = false};
  policy_ = world_.PutPolicy("p", TokenWorld::Limits(3));
  uid_ = world_.AddSchedule("s", schedule_);
  world_.AddRow(uid_, schedule_, {.due = world_.now(), .count = 3});
  world_.Start("a");
  world_.Advance(kSettle);
  world_.Handle([&](const SentEvent& event) {
    Entry entry = Of(event, GrantReportRecord::SUCCEEDED);
    entry.set_dispatch_time_micros(ToMicros(world_.now()) - 1000);
    return entry;
  });
  world_.Advance(kSettle);
  EXPECT_EQ(Part().succeeded(), 3);
  EXPECT_EQ(Part().slowest_size(), 0);
}

TEST_F(ReportsTest, EventThatIsTriedAgainTakesAnotherToken) {
  Grant(1, 1);
  world_.Handle([&](const SentEvent& event) {
    Entry entry = Of(event, GrantReportRecord::RETRY);
    entry.set_attempts(1);
    entry.set_retry_at_micros(ToMicros(world_.now()) + 1000);
    return entry;
  });
  world_.Advance(kSettle);
  EXPECT_EQ(Part().tokens(), 2);
  world_.Handle([](const SentEvent& event) { return Of(event, GrantReportRecord::RETURNED); });
  world_.Advance(kSettle);
  EXPECT_EQ(Part().tokens(), 3);
  EXPECT_EQ(Part().granted(), 1);
}

TEST_F(ReportsTest, KeptTokenIsNotTakenAgain) {
  storage::v1::PolicyRecord limits = TokenWorld::Limits(1);
  limits.set_keep_token(true);
  schedule_ = {.policy_id = "p"};
  policy_ = world_.PutPolicy("p", limits);
  uid_ = world_.AddSchedule("s", schedule_);
  world_.AddRow(uid_, schedule_, {.due = world_.now(), .count = 2});
  world_.Start("a");
  world_.Advance(kSettle);
  const auto fail_first = [&](const SentEvent& event) {
    Entry entry =
        Of(event, event.attempts == 0 ? GrantReportRecord::RETRY : GrantReportRecord::SUCCEEDED);
    if (event.attempts == 0) entry.set_retry_at_micros(ToMicros(world_.now()) + 1000);
    return entry;
  };
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(world_.Handle(fail_first).size(), 1u);
    world_.Advance(kSettle);
    EXPECT_EQ(Part().tokens(), i == 0 ? 1 : 2);
  }
  EXPECT_EQ(Part().succeeded(), 2);
  EXPECT_EQ(Part().retries(), 2);
}

TEST_F(ReportsTest, FailedLeavesADeadLetter) {
  Grant(1, 1);
  world_.Handle([](const SentEvent& event) {
    Entry entry = Of(event, GrantReportRecord::FAILED);
    entry.set_attempts(4);
    entry.set_reason("503");
    return entry;
  });
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Held(policy_), 0);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 1);
  EXPECT_EQ(world_.Done()[0].reason(), "503");
  EXPECT_EQ(world_.Done()[0].attempts(), 4);
  ASSERT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1);
  storage::v1::DeadLetterRecord letter;
  letter.ParseFromString(world_.Rows(ColumnFamily::kDeadLetters).begin()->second);
  EXPECT_EQ(letter.schedule_id(), "s");
  EXPECT_EQ(Part().failed(), 1);
}

TEST_F(ReportsTest, RetryFreesTheTokenUntilItIsDue) {
  Grant(1, 1);
  const absl::Time retry_at = world_.now() + absl::Seconds(30);
  world_.Handle([&](const SentEvent& event) {
    Entry entry = Of(event, GrantReportRecord::RETRY);
    entry.set_attempts(1);
    entry.set_retry_at_micros(ToMicros(retry_at));
    entry.set_reason("refused");
    return entry;
  });
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Held(policy_), 0);
  ASSERT_EQ(world_.Waiting().size(), 1);
  EXPECT_EQ(world_.Waiting()[0].first.due_time, retry_at);
  EXPECT_EQ(world_.Waiting()[0].second.attempts(), 1);
  EXPECT_EQ(world_.Waiting()[0].second.last_error(), "refused");
  EXPECT_TRUE(world_.Handle().empty());
  world_.Advance(absl::Seconds(30));
  const auto again = world_.Handle();
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].attempts, 1);
  EXPECT_EQ(Part().retries(), 1);
  EXPECT_EQ(Part().granted(), 1);  // once, however often
}

TEST_F(ReportsTest, AFailedCompletionFollowsTheRetryPolicyToItsEnd) {
  Grant(1, 1);
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    std::vector<SentEvent> sent;
    for (int i = 0; i < 400 && sent.empty(); ++i) {
      world_.Advance(absl::Seconds(1));
      sent = world_.Handle();
    }
    ASSERT_EQ(sent.size(), 1) << attempt;
    EXPECT_EQ(sent[0].attempts, attempt - 1);
    EXPECT_TRUE(world_.Complete("a", sent[0], GrantReportRecord::COMPLETION_FAILED));
  }
  world_.Advance(absl::Hours(1));
  EXPECT_TRUE(world_.Handle().empty());
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 1);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1);
  EXPECT_EQ(Part().retries(), 3);
  EXPECT_EQ(Part().failed(), 1);
  EXPECT_EQ(Part().delivered(), 4);
}

TEST_F(ReportsTest, ACompletionFailedForGoodIsNotTriedAgain) {
  Grant(1, 1);
  const auto sent = world_.Handle();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_TRUE(world_.Complete("a", sent[0], GrantReportRecord::COMPLETION_FAILED_FINALLY));
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_FAILED), 1);
  EXPECT_TRUE(world_.Waiting().empty());
}

TEST_F(ReportsTest, ReturnedEventsWaitAgainInWhateverPartsTheyComeBack) {
  // Each event ends exactly once, in whatever parts events are returned and however often. (Rows
  // must not overwrite one another: the rest of a row and its returned events may have the same
  // first event.)
  Grant(40, 13, /*on_release=*/false);
  Random& random = world_.runtime.random();
  std::map<uint64_t, int> ended;
  for (int step = 0; step < 400 && ended.size() < 40; ++step) {
    world_.Handle([&](const SentEvent& event) {
      const bool back = random.Below(4) != 0;
      if (!back) ++ended[event.index];
      return Of(event, back ? GrantReportRecord::RETURNED : GrantReportRecord::SUCCEEDED);
    });
    world_.Advance(absl::Milliseconds(50));
  }
  EXPECT_EQ(ended.size(), 40);
  for (const auto& [index, times] : ended) EXPECT_EQ(times, 1) << index;
  world_.Advance(kSettle);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 40);
  EXPECT_TRUE(world_.Waiting().empty());
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0);
  EXPECT_EQ(Part().granted(), 40);
  EXPECT_EQ(Part().succeeded(), 40);
  EXPECT_EQ(Part().running(), 0);
}

TEST_F(ReportsTest, ATargetThatCannotBeReachedIsPassedOver) {
  Grant(5, 5);
  const TokenWorld::Schedule healthy{.policy_id = "p", .target = "healthy"};
  const Uid other = world_.AddSchedule("other", healthy);
  size_t to_dead = 0;
  size_t to_healthy = 0;
  const auto decide = [&](const SentEvent& event) {
    const bool dead = event.uid == uid_;
    ++(dead ? to_dead : to_healthy);
    Entry entry = Of(event, dead ? GrantReportRecord::RETURNED : GrantReportRecord::SUCCEEDED);
    entry.set_unreachable(dead);
    return entry;
  };
  world_.Handle(decide);
  world_.AddRow(other, healthy, {.due = world_.now(), .count = 200});
  for (int i = 0; i < 1000; ++i) {
    world_.Advance(absl::Milliseconds(20));
    world_.Handle(decide);
  }
  EXPECT_EQ(to_healthy, 200);
  EXPECT_GE(to_dead, 5 + 3);  // in 20 s: probes after 1, 2, 4, 8 s
  EXPECT_LE(to_dead, 5 + 5);
  // It answers again: everything goes.
  for (int i = 0; i < 200; ++i) {
    world_.Advance(absl::Milliseconds(200));
    world_.Handle();
  }
  EXPECT_EQ(world_.Held(policy_), 5);
}

// Workers go on with what they had.
TEST_F(ReportsTest, ACompletionDoesNotSayThatATargetCanBeReached) {
  Grant(10, 5);
  const auto out = world_.Handle();
  ASSERT_EQ(out.size(), 5);
  world_.Advance(kSettle);
  int tried = 0;
  const auto unreachable = [&](const SentEvent& event) {
    ++tried;
    Entry entry = Of(event, GrantReportRecord::RETURNED);
    entry.set_unreachable(true);
    return entry;
  };
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_TRUE(world_.Complete("a", out[i]));
    for (int step = 0; step < 10; ++step) {
      world_.Advance(absl::Milliseconds(20));
      world_.Handle(unreachable);
    }
  }
  EXPECT_LE(tried, 5);  // the first ones to know, and probes after 1 s
}

TEST_F(ReportsTest, EventOfALostHandlerIsClaimedAgainUnderTheSameToken) {
  Grant(5, 5);
  const auto lost = world_.Handle([](const SentEvent& event) -> std::optional<Entry> {
    if (event.index == 1) return Of(event, GrantReportRecord::DELIVERED);
    return std::nullopt;
  });
  ASSERT_EQ(lost.size(), 5);
  EXPECT_TRUE(world_.Complete("a", lost[2]));
  Entry resend = Of(lost[0], GrantReportRecord::RESEND);
  resend.set_count(5);
  world_.Report(PolicyShardOf(policy_, TokenWorld::kPolicyShards), {resend});
  world_.Advance(kSettle);
  const auto again = world_.Handle();
  ASSERT_EQ(again.size(), 3);  // but neither the delivered one nor the completed one
  EXPECT_EQ(again[0].index, 0);
  EXPECT_EQ(again[1].index, 3);
  EXPECT_EQ(again[2].index, 4);
  EXPECT_EQ(again[0].grant.number(), lost[0].grant.number());
  EXPECT_EQ(again[0].grant.epoch(), lost[0].grant.epoch());
  EXPECT_GT(again[0].grant.send_before_micros(), lost[0].grant.send_before_micros());
  EXPECT_EQ(world_.Held(policy_), 4);
  EXPECT_TRUE(world_.Complete("a", again[0]));
}

// The consumer may have them: whoever took their places would be one too many.
TEST_F(ReportsTest, EventOfALostHandlerOfAPausedScheduleKeepsItsToken) {
  Grant(5, 5);
  const auto lost = world_.Handle([](const SentEvent&) { return std::nullopt; });
  ASSERT_EQ(lost.size(), 5);
  world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  Entry resend = Of(lost[0], GrantReportRecord::RESEND);
  resend.set_count(5);
  world_.Report(PolicyShardOf(policy_, TokenWorld::kPolicyShards), {resend});
  world_.Advance(kSettle);
  EXPECT_TRUE(world_.Handle().empty());
  EXPECT_EQ(world_.Count(ColumnFamily::kWaiting), 0);
  EXPECT_EQ(world_.Held(policy_), 5);
  EXPECT_TRUE(world_.Complete("a", lost[1]));
  EXPECT_EQ(world_.Held(policy_), 4);
  world_.Advance(absl::Seconds(50));  // no report has come
  EXPECT_TRUE(world_.Handle().empty());
  EXPECT_EQ(world_.Held(policy_), 0);
  EXPECT_EQ(world_.Counts(policy_).expired(), 4);
  EXPECT_EQ(world_.Count(ColumnFamily::kParked), 2);  // before the one that is done and after it
  EXPECT_EQ(Part().granted(), 1);
}

TEST_F(ReportsTest, EventClaimedAgainAndNotSentKeepsItsToken) {
  Grant(2, 2);
  const auto lost =
      world_.Handle([](const SentEvent& event) { return Of(event, GrantReportRecord::RESEND); });
  ASSERT_EQ(lost.size(), 2);
  world_.Advance(kSettle);
  const auto again =
      world_.Handle([](const SentEvent& event) { return Of(event, GrantReportRecord::RETURNED); });
  ASSERT_EQ(again.size(), 2);
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Held(policy_), 2);
  EXPECT_TRUE(world_.Handle().empty());
  EXPECT_TRUE(world_.Complete("a", lost[1]));
  EXPECT_EQ(world_.Held(policy_), 1);
  world_.Advance(absl::Seconds(50));
  const auto anew = world_.Handle();
  ASSERT_EQ(anew.size(), 1);
  EXPECT_NE(anew[0].grant.number(), lost[0].grant.number());
}

TEST_F(ReportsTest, EventOfALostHandlerIsRememberedUntilThereIsAnother) {
  Grant(2, 2);
  const auto lost = world_.Handle([](const SentEvent&) { return std::nullopt; });
  ASSERT_EQ(lost.size(), 2);
  for (uint16_t shard = 0; shard < TokenWorld::kQueueShards; ++shard)
    world_.PutLiveQueueShard(shard, absl::Seconds(1));
  world_.Advance(absl::Seconds(2));
  Entry resend = Of(lost[0], GrantReportRecord::RESEND);
  resend.set_count(2);
  world_.Report(PolicyShardOf(policy_, TokenWorld::kPolicyShards), {resend});
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Count(ColumnFamily::kWaiting), 1);  // the report
  world_.Kill("a");
  world_.Start("b");
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(world_.Count(ColumnFamily::kWaiting), 1);
  world_.PutLiveQueueShard(0);
  world_.Advance(absl::Seconds(1));
  const auto again = world_.Handle();
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again[0].grant.number(), lost[0].grant.number());
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Count(ColumnFamily::kWaiting), 0);
  EXPECT_EQ(world_.Held(policy_), 2);
}

TEST(ReportsOfFullShardsTest, EventOfALostHandlerNeedsNoRoomBesideItself) {
  TokenManagerOptions options;
  options.undelivered_max = 2;
  TokenWorld world(options);
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(100));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 10});
  world.Start("a");
  world.Advance(kSettle);
  const auto lost = world.Handle(
      [](const SentEvent& event) { return TokenWorld::EntryOf(event, GrantReportRecord::RESEND); });
  ASSERT_EQ(lost.size(), 2 * TokenWorld::kQueueShards);
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), lost.size());
  EXPECT_EQ(world.Held(policy), lost.size());
}

TEST_F(ReportsTest, TokenOfASilentGrantComesBack) {
  Grant(2, 2);
  const auto lost = world_.Handle([](const SentEvent&) { return std::nullopt; });
  ASSERT_EQ(lost.size(), 2);
  world_.Advance(absl::Seconds(45));  // 10 s + 10 s delivery timeout + 30 s
  EXPECT_TRUE(world_.Handle().empty());
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(world_.Counts(policy_).expired(), 2);
  const auto again = world_.Handle();
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again[0].attempts, 0);
  EXPECT_NE(again[0].grant.number(), lost[0].grant.number());
  EXPECT_FALSE(world_.Complete("a", lost[0]));
}

TEST_F(ReportsTest, ReportsOnWhatIsNotHeldAndNonsenseChangeNothing) {
  Grant(1, 1);
  const auto sent = world_.Handle();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_TRUE(world_.Complete("a", sent[0]));
  const auto before = world_.Rows(ColumnFamily::kGrants);
  std::vector<Entry> entries;
  for (int kind = 0; kind <= GrantReportRecord::EXTENDED + 1; ++kind) {
    entries.push_back(Of(sent[0], static_cast<GrantReportRecord::Kind>(kind)));
    entries.push_back(entries.back());
    entries.back().set_first(~uint64_t{0} - 1);
    entries.back().set_count(~uint64_t{0});
    entries.push_back(entries.back());
    entries.back().set_policy_uid("?");
  }
  const uint16_t shard = PolicyShardOf(policy_, TokenWorld::kPolicyShards);
  world_.Report(shard, entries);
  world_.Put(ColumnFamily::kWaiting,
             EncodeReportKey({.policy_shard = shard, .origin = 3, .a = 1, .b = 1}), "no record");
  world_.Advance(kSettle);
  EXPECT_EQ(world_.Rows(ColumnFamily::kGrants), before);
  EXPECT_EQ(world_.Count(ColumnFamily::kWaiting), 0);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  EXPECT_EQ(world_.Count(ColumnFamily::kDone), 1);
}

}  // namespace token_manager_reports_test
}  // namespace escapement::token_manager
