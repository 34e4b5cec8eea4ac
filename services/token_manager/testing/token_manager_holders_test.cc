// Holders of tokens and their hold times: extensions, tokens of others, takeover.

#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_holders_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;

TEST(TokenManagerHoldersTest, HoldersWhoseTimeIsOverAreReclaimedAndTheirEventsTriedAgain) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now()});
  world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  world.Advance(absl::Seconds(59));
  EXPECT_TRUE(world.Handle().empty());
  world.Advance(absl::Seconds(10));
  EXPECT_EQ(world.Counts(policy).expired(), 1);
  EXPECT_EQ(world.Counts(policy).returns(), storage::v1::PolicyCountsRecord::HOLD_ENDED);
  // The old token is void; the event comes again with another one.
  EXPECT_FALSE(world.Complete("a", sent[0]));
  const auto again = world.Handle();
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].attempts, 1);
  EXPECT_NE(again[0].grant.number(), sent[0].grant.number());
  world.Advance(kSettle);
  EXPECT_TRUE(world.Complete("a", again[0]));
  EXPECT_EQ(world.Done()[0].attempts(), 2);
  EXPECT_EQ(world.Counts(policy).returns(), storage::v1::PolicyCountsRecord::GIVEN_BACK);
}

TEST(TokenManagerHoldersTest, HoldThatEndsAfterATokenCameBackIsNoSign) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 2});
  world.Start("a");
  world.Advance(kSettle);
  auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_EQ(world.Counts(policy).returns(), storage::v1::PolicyCountsRecord::NONE);
  world.Advance(kSettle);
  EXPECT_TRUE(world.Complete("a", sent[0]));
  world.Advance(kSettle);
  sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  world.Advance(absl::Seconds(70));
  EXPECT_EQ(world.Counts(policy).expired(), 1);
  EXPECT_EQ(world.Counts(policy).returns(), storage::v1::PolicyCountsRecord::GIVEN_BACK);
}

// A shard is lost while a probe is out, and the probe's answer goes to the next owner. If the first
// owner gets the shard again, its old memory of the probe must not keep the target waiting.
TEST(TokenManagerHoldersTest, AProbeOfAShardThatIsLostDoesNotStandInTheWay) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  world.PutPolicy("p", TokenWorld::Limits(5));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 5});
  world.Start("a");
  world.Advance(kSettle);
  world.Handle([](const SentEvent& event) {
    auto entry = TokenWorld::EntryOf(event, GrantReportRecord::RETURNED);
    entry.set_unreachable(true);
    return entry;
  });
  world.Advance(absl::Seconds(2));
  const auto nothing = [](const SentEvent&) { return std::nullopt; };
  ASSERT_EQ(world.Handle(nothing).size(), 1);  // the probe
  world.Start("b");
  for (int i = 0; i < 5; ++i) {
    world.Advance(absl::Seconds(1));
    world.Handle();
  }
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 4);
  world.Kill("b");
  world.AddRow(uid, schedule, {.due = world.now(), .occurrence = "o2"});
  world.Advance(absl::Seconds(10));
  EXPECT_EQ(world.Handle().size(), 1);
}

TEST(TokenManagerHoldersTest, HoldersWhoseTimeIsOverStayWhereThePolicySaysHold) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  storage::v1::PolicyRecord hold = TokenWorld::Limits(1);
  hold.set_hold_on_expiry(true);
  const Uid policy = world.PutPolicy("p", hold);
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 2});
  world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  world.Advance(absl::Seconds(300));
  EXPECT_TRUE(world.Handle().empty());
  EXPECT_EQ(world.Held(policy), 1);
  EXPECT_TRUE(world.Grants()[0].holders(0).overdue());
  EXPECT_EQ(world.Counts(policy).expired(), 1);
  EXPECT_TRUE(world.Complete("a", sent[0]));
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1);
}

// Also tokens that were overdue by then, even if another owner had noted it.
TEST(TokenManagerHoldersTest, APolicyThatReclaimsFromNowOnReclaimsAll) {
  for (const bool taken_over : {false, true}) {
    TokenWorld world;
    const TokenWorld::Schedule schedule{.policy_id = "p"};
    storage::v1::PolicyRecord record = TokenWorld::Limits(1);
    record.set_hold_on_expiry(true);
    world.PutPolicy("p", record);
    const Uid uid = world.AddSchedule("s", schedule);
    world.AddRow(uid, schedule, {.due = world.now(), .count = 2});
    world.Start("a");
    world.Advance(kSettle);
    ASSERT_EQ(world.Handle().size(), 1);
    world.Advance(absl::Seconds(300));
    EXPECT_TRUE(world.Handle().empty());
    if (taken_over) {
      world.Kill("a");
      world.Start("b");
      world.Advance(absl::Seconds(20));
    }
    record.set_hold_on_expiry(false);
    world.PutPolicy("p", record);
    world.Advance(kSettle);
    EXPECT_EQ(world.Handle().size(), 1);
  }
}

// There are more of them than are read at once, and the hold times end before all are.
TEST(TokenManagerHoldersTest, CompletionsThatWereStoredInTimeCount) {
  constexpr int kEvents = 5000;
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(2 * kEvents));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = kEvents});
  world.Start("a");
  std::vector<SentEvent> sent;
  for (int i = 0; i < 40; ++i) {
    world.Advance(absl::Milliseconds(200));
    for (SentEvent& event : world.Handle()) sent.push_back(std::move(event));
  }
  ASSERT_EQ(sent.size(), kEvents);
  world.Advance(kSettle);
  world.Kill("a");
  for (const SentEvent& event : sent)
    world.Report(TokenWorld::ShardOf(policy),
                 {TokenWorld::EntryOf(event, GrantReportRecord::COMPLETED)});
  world.Advance(absl::Seconds(100));
  world.Start("b");
  world.Advance(absl::Seconds(10));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), kEvents);
  EXPECT_EQ(world.Counts(policy).expired(), 0);
}

TEST(TokenManagerHoldersTest, AnExtendedHolderHoldsOn) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now()});
  world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  world.Advance(absl::Seconds(50));
  EXPECT_TRUE(world.Complete("a", sent[0], GrantReportRecord::EXTENDED));
  world.Advance(absl::Seconds(55));
  EXPECT_EQ(world.Counts(policy).expired(), 0);
  EXPECT_TRUE(world.Complete("a", sent[0], GrantReportRecord::RELEASED));
}

// Its worker is faster than its handler's word of the delivery. The hold time goes from the later.
TEST(TokenManagerHoldersTest, EventExtendedBeforeItsDeliveryIsKnownHoldsUntilThen) {
  for (const bool taken_over : {false, true}) {
    SCOPED_TRACE(taken_over);
    TokenWorld world;
    const TokenWorld::Schedule schedule{.policy_id = "p"};
    const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
    const Uid uid = world.AddSchedule("s", schedule);
    world.AddRow(uid, schedule, {.due = world.now()});
    world.Start("a");
    world.Advance(kSettle);
    const auto sent = world.Handle([](const SentEvent&) { return std::nullopt; });
    ASSERT_EQ(sent.size(), 1);
    EXPECT_TRUE(world.Complete("a", sent[0], GrantReportRecord::EXTENDED));
    if (taken_over) {
      world.Kill("a");
      world.Start("b");
      world.Advance(absl::Seconds(10));
    } else {
      world.Advance(absl::Seconds(10));
    }
    TokenWorld::Entry delivered = TokenWorld::EntryOf(sent[0], GrantReportRecord::DELIVERED);
    delivered.set_time_micros(ToMicros(world.now()));
    world.Report(TokenWorld::ShardOf(policy), {delivered});
    world.Advance(absl::Seconds(1));
    if (!taken_over) {
      world.Kill("a");
      world.Start("b");
    }
    world.Advance(absl::Seconds(58));
    EXPECT_EQ(world.Counts(policy).expired(), 0);
    world.Advance(absl::Seconds(3));
    EXPECT_EQ(world.Counts(policy).expired(), 1);
  }
}

TEST(TokenManagerHoldersTest, TokensOfAnotherGenerationChangeNothing) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(2));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 2});
  world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 2);
  SentEvent foreign = sent[0];
  foreign.grant.set_epoch(foreign.grant.epoch() + 1);
  EXPECT_FALSE(world.Complete("a", foreign));
  foreign = sent[0];
  foreign.index = 7;
  EXPECT_FALSE(world.Complete("a", foreign));
  foreign = sent[0];
  foreign.grant.set_policy_uid("nonsense");
  EXPECT_FALSE(world.Complete("a", foreign));
  EXPECT_EQ(world.Held(policy), 2);
  // A shard nobody owns here.
  const auto elsewhere =
      world.Apply("a", 77, {TokenWorld::EntryOf(sent[0], GrantReportRecord::RELEASED)});
  EXPECT_TRUE(absl::IsUnavailable(elsewhere.status()));
}

TEST(TokenManagerHoldersTest, SuccessorHasTheSameHolders) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(10));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 100});
  world.Start("a");
  world.Advance(kSettle);
  auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 10);
  world.Kill("a");
  // Stored for whoever owns the shard next.
  world.Report(TokenWorld::ShardOf(policy),
               {TokenWorld::EntryOf(sent[0], GrantReportRecord::COMPLETED),
                TokenWorld::EntryOf(sent[3], GrantReportRecord::COMPLETED)});
  world.Start("b");
  world.Advance(absl::Seconds(15));
  EXPECT_EQ(world.Held(policy), 10);
  const auto more = world.Handle();
  ASSERT_EQ(more.size(), 2);
  EXPECT_EQ(more[0].index, 10);
  EXPECT_EQ(more[1].index, 11);
  EXPECT_TRUE(world.Complete("b", sent[1]));
  EXPECT_FALSE(world.Complete("b", sent[3]));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 3);
  const auto part = world.Part(uid, "o1", policy);
  EXPECT_EQ(part.succeeded(), 3);
  EXPECT_EQ(part.granted(), 12 + 1 * (world.Held(policy) == 10 ? 1 : 0));
}

// The handler that was sent the claim is gone, and its successor's word comes with a change that
// the token manager has not seen.
TEST(TokenManagerHoldersTest, AResendThatIsRefusedLeavesTheTimeOfItsGrantAsItWas) {
  const TokenManagerOptions options;
  TokenWorld world(options);
  world.poor_store.states_delay = absl::Milliseconds(100);
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now()});
  const TokenManagerService& service = world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle([](const SentEvent&) { return std::nullopt; });
  ASSERT_EQ(sent.size(), 1);
  const absl::Time silent = absl::FromUnixMicros(sent[0].grant.send_before_micros()) +
                            absl::Seconds(10) + kUndeliveredSlack;
  world.Advance(absl::Seconds(5));
  GrantReportRecord report;
  *report.add_entries() = TokenWorld::EntryOf(sent[0], GrantReportRecord::RESEND);
  storage::v1::StateRecord paused;
  ASSERT_TRUE(paused.ParseFromString(world.Rows(ColumnFamily::kStates).begin()->second));
  paused.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  kv::Group group;
  group.mutations = {
      {.cf = ColumnFamily::kWaiting,
       .key = EncodeReportKey(ReportKey{.policy_shard = TokenWorld::ShardOf(policy)}),
       .value = report.SerializeAsString()},
      {.cf = ColumnFamily::kStates,
       .key = world.Rows(ColumnFamily::kStates).begin()->first,
       .value = paused.SerializeAsString()}};
  EXPECT_TRUE(world.Commit(std::move(group)));
  world.Advance(silent - absl::Seconds(1) - world.now());
  EXPECT_EQ(service.metrics().grants_refused.Value(), 1);
  EXPECT_EQ(world.Held(policy), 1);
  world.Advance(absl::Seconds(2));
  EXPECT_EQ(world.Held(policy), 0);
}

}  // namespace token_manager_holders_test
}  // namespace escapement::token_manager
