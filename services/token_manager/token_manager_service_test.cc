#include "services/token_manager/token_manager_service.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "common/base/micros.h"
#include "common/base/stable_hash.h"
#include "common/storage/policy_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/token_world.h"

namespace escapement::token_manager {
namespace {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;

constexpr absl::Duration kSettle = absl::Seconds(3);

uint16_t ShardOf(const Uid& policy) { return PolicyShardOf(policy, TokenWorld::kPolicyShards); }

TEST(TokenManagerServiceTest, AnEventUnderALimitIsGrantedDeliveredAndCompleted) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .run_kept = true});
  world.Start("a");
  world.Advance(kSettle);
  EXPECT_TRUE(world.Waiting().empty());
  EXPECT_EQ(world.Held(policy), 1);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_EQ(sent[0].uid, uid);
  world.Advance(kSettle);
  ASSERT_EQ(world.Grants().size(), 1);
  EXPECT_GT(world.Grants()[0].holders(0).expire_time_micros(), ToMicros(world.now()));
  EXPECT_EQ(world.Count(ColumnFamily::kWaiting), 0);  // the report is gone
  EXPECT_TRUE(world.Complete("a", sent[0]));
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  const auto part = world.Part(uid, "o1", policy);
  EXPECT_EQ(part.succeeded(), 1);
  EXPECT_EQ(part.granted(), 1);
  EXPECT_EQ(part.delivered(), 1);
  EXPECT_EQ(part.running(), 0);
  EXPECT_EQ(world.Counts(policy).released(), 1);
  EXPECT_EQ(world.Counts(policy).held(), 0);
  // A second time it changes nothing.
  EXPECT_FALSE(world.Complete("a", sent[0]));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  EXPECT_EQ(world.Counts(policy).released(), 1);
}

TEST(TokenManagerServiceTest, NeverMoreThanTheLimitAreOutWhateverTheOrderOfCompletions) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  constexpr uint64_t kLimit = 7;
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(kLimit));
  uint64_t most = 0;
  world.on_commit = [&](const kv::CommitRecord&) { most = std::max(most, world.Held(policy)); };
  for (int i = 0; i < 5; ++i) {
    const Uid uid = world.AddSchedule("s" + std::to_string(i), schedule);
    world.AddRow(uid, schedule, {.due = world.now(), .count = 30});
  }
  world.Start("a");
  std::vector<SentEvent> out;
  std::set<std::tuple<std::string, uint64_t>> seen;
  Random& random = world.runtime.random();
  for (int step = 0; step < 2000 && seen.size() < 150; ++step) {
    world.Advance(absl::Milliseconds(20));
    for (SentEvent& event : world.Handle()) {
      EXPECT_TRUE(seen.insert({event.uid.ToHex(), event.index}).second);
      out.push_back(std::move(event));
    }
    EXPECT_LE(out.size(), kLimit);
    while (!out.empty() && random.Below(3) != 0) {
      const size_t i = random.Below(out.size());
      EXPECT_TRUE(world.Complete("a", out[i]));
      out.erase(out.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  for (const SentEvent& event : out) EXPECT_TRUE(world.Complete("a", event));
  EXPECT_EQ(seen.size(), 150);
  EXPECT_EQ(most, kLimit);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 150);
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_TRUE(world.Waiting().empty());
}

TEST(TokenManagerServiceTest, ALimitThatIsLoweredWaitsForHoldersAndOneThatIsRaisedLetsMoreGo) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(5));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 100});
  world.Start("a");
  world.Advance(kSettle);
  std::vector<SentEvent> out = world.Handle();
  ASSERT_EQ(out.size(), 5);
  world.PutPolicy("p", TokenWorld::Limits(2));
  world.Advance(kSettle);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(world.Complete("a", out[static_cast<size_t>(i)]));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 2);
  EXPECT_TRUE(world.Handle().empty());
  world.PutPolicy("p", TokenWorld::Limits(9));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 9);
  EXPECT_EQ(world.Handle().size(), 7);
}

TEST(TokenManagerServiceTest, APausedPolicyGrantsNothingUntilItIsResumed) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  storage::v1::PolicyRecord paused = TokenWorld::Limits(5);
  paused.set_paused(true);
  const Uid policy = world.PutPolicy("p", paused);
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 3});
  world.Start("a");
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 0);
  world.PutPolicy("p", TokenWorld::Limits(5));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 3);
}

TEST(TokenManagerServiceTest, NothingIsGrantedBeforeItIsDueOrToQueueShardsNobodyOwns) {
  TokenWorld world;
  world.PutLiveQueueShard(0, absl::ZeroDuration());
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(0));
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now() + absl::Seconds(20);
  world.AddRow(uid, schedule, {.due = due, .count = 500});
  world.Start("a");
  world.Advance(absl::Seconds(19));
  EXPECT_EQ(world.Held(policy), 0);
  world.Advance(absl::Seconds(2));
  EXPECT_EQ(world.Held(policy), 500);
  for (const auto& grant : world.Grants()) {
    EXPECT_EQ(grant.queue_shard(), 1);
    EXPECT_LE(grant.holders(0).count(), 64);
    EXPECT_GE(grant.grant_time_micros(), ToMicros(due - absl::Milliseconds(10)));
    EXPECT_LT(grant.grant_time_micros(), ToMicros(due + absl::Milliseconds(20)));
  }
}

TEST(TokenManagerServiceTest, HoldersWhoseTimeIsOverAreReclaimedAndTheirEventsTriedAgain) {
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
  // The old token is void; the event comes again with another one.
  EXPECT_FALSE(world.Complete("a", sent[0]));
  const auto again = world.Handle();
  ASSERT_EQ(again.size(), 1);
  EXPECT_EQ(again[0].attempts, 1);
  EXPECT_NE(again[0].grant.number(), sent[0].grant.number());
  world.Advance(kSettle);
  EXPECT_TRUE(world.Complete("a", again[0]));
  EXPECT_EQ(world.Done()[0].attempts(), 2);
}

TEST(TokenManagerServiceTest, HoldersWhoseTimeIsOverStayWhereThePolicySaysHold) {
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

TEST(TokenManagerServiceTest, AnExtendedHolderHoldsOn) {
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

TEST(TokenManagerServiceTest, TokensOfAnotherGenerationChangeNothing) {
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

TEST(TokenManagerServiceTest, WhoTakesOverHasTheSameHolders) {
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
  world.Report(ShardOf(policy), {TokenWorld::EntryOf(sent[0], GrantReportRecord::COMPLETED),
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

TEST(TokenManagerServiceTest, DrainedItGivesItsShardsUpAndTheOtherGoesOn) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(3));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 9});
  world.Start("a");
  world.Advance(kSettle);
  bool drained = false;
  world.manager("a").Drain([&] { drained = true; });
  world.Advance(absl::Seconds(1));
  EXPECT_TRUE(drained);
  world.Start("b");
  world.Advance(kSettle);
  for (const SentEvent& event : world.Handle()) EXPECT_TRUE(world.Complete("b", event));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 3);
}

TEST(TokenManagerServiceTest, TheRateIsKept) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  storage::v1::PolicyRecord rate;
  rate.set_max_per_second(10);
  rate.set_burst(5);
  world.PutPolicy("p", rate);
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now() + absl::Seconds(10), .count = 1000});
  world.Start("a");
  world.Advance(absl::Seconds(10));
  size_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    world.Advance(absl::Milliseconds(100));
    sent += world.Handle().size();
    EXPECT_LE(sent, 5 + static_cast<size_t>(i) + 2);
  }
  EXPECT_GE(sent, 100);
}

TEST(TokenManagerServiceTest, SchedulesOfAPolicyTakeTurns) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  world.PutPolicy("p", TokenWorld::Limits(4));
  const absl::Time due = world.now() + absl::Seconds(10);
  for (int i = 0; i < 4; ++i) {
    const Uid uid = world.AddSchedule("s" + std::to_string(i), schedule);
    world.AddRow(uid, schedule, {.due = due, .count = 1000});
  }
  world.Start("a");
  world.Advance(absl::Seconds(12));
  std::set<Uid> uids;
  for (const SentEvent& event : world.Handle()) uids.insert(event.uid);
  EXPECT_EQ(uids.size(), 4);
}

TEST(TokenManagerServiceTest, RowsOfAPausedScheduleAreParkedAndOfADeletedOneSkipped) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(3));
  const Uid paused = world.AddSchedule("paused", schedule);
  const Uid deleted = world.AddSchedule("deleted", schedule);
  world.SetState(paused, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world.SetState(deleted, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world.AddRow(paused, schedule, {.due = world.now(), .count = 10});
  world.AddRow(deleted, schedule, {.due = world.now(), .count = 10});
  world.Start("a");
  world.Advance(kSettle);
  EXPECT_TRUE(world.Waiting().empty());
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_EQ(world.Count(ColumnFamily::kParked), 1);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 10);
  // One Done record for each queue shard's slice.
  EXPECT_EQ(world.Count(ColumnFamily::kDone), TokenWorld::kQueueShards);
  EXPECT_EQ(world.Part(deleted, "o1", policy).skipped(), 10);
}

TEST(TokenManagerServiceTest, RowsGoWhereTheScheduleWantsThemByNow) {
  TokenWorld world;
  TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid p = world.PutPolicy("p", TokenWorld::Limits(1));
  std::vector<Uid> others;
  for (int i = 0; i < 4; ++i)
    others.push_back(world.PutPolicy("other" + std::to_string(i), TokenWorld::Limits(2)));
  for (int i = 0; i < 4; ++i) {
    const Uid uid = world.AddSchedule("s" + std::to_string(i), schedule);
    const absl::Time due = absl::FromUnixSeconds(3 * 3600);  // as the cron says
    world.AddRow(uid, schedule, {.due = due, .count = 10, .occurrence = "19700101T030000-0-UTC"});
    TokenWorld::Schedule moved = schedule;
    moved.version = 2;
    moved.policy_id = "other" + std::to_string(i);
    world.AddDefinition(uid, moved);
    world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  }
  world.Start("a");
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(p), 0);
  // Though they were written by the very process that owns both shards.
  for (const Uid& other : others) EXPECT_EQ(world.Held(other), 2);
}

TEST(TokenManagerServiceTest, WhatWaitsWithoutAPolicyHasNoLimit) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{};
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 300});
  world.Start("a");
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(uid), 300);
  for (const SentEvent& event : world.Handle()) EXPECT_TRUE(world.Complete("a", event));
  EXPECT_EQ(world.Held(uid), 0);
  EXPECT_EQ(world.Count(ColumnFamily::kGrants), 0);
}

TEST(TokenManagerServiceTest, RowsOfAPolicyThatIsNotThereWaitAndThoseThatAreNotWantedGo) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "missing"};
  const Uid wanted = world.AddSchedule("wanted", schedule);
  const Uid deleted = world.AddSchedule("deleted", schedule);
  world.SetState(deleted, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world.AddRow(wanted, schedule, {.due = world.now()});
  world.AddRow(deleted, schedule, {.due = world.now()});
  world.Start("a");
  world.Advance(absl::Seconds(20));
  ASSERT_EQ(world.Waiting().size(), 1);
  EXPECT_EQ(world.Waiting()[0].first.uid, wanted);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SKIPPED), 1);
  const Uid policy = world.PutPolicy("missing", TokenWorld::Limits(1));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 1);
}

TEST(TokenManagerServiceTest, AStateThatChangesUnseenIsNotGrantedAgainst) {
  // The row was judged before the schedule was paused, and committed after.
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  for (int i = 0; i < 50; ++i) {
    const Uid uid = world.AddSchedule("s" + std::to_string(i), schedule);
    world.AddRow(uid, schedule, {.due = world.now() + absl::Seconds(5), .count = 2});
  }
  world.Start("a");
  world.Advance(absl::Seconds(2));
  for (int i = 0; i < 50; ++i) {
    world.SetState(StableHash128("s" + std::to_string(i)), storage::v1::SCHEDULE_STATE_KIND_PAUSED);
    world.Advance(absl::Milliseconds(100));
  }
  world.Advance(absl::Seconds(10));
  uint64_t parked = world.Count(ColumnFamily::kParked);
  EXPECT_LE(world.Held(policy), 1);
  EXPECT_GE(parked, 1);
}

TEST(TokenManagerServiceTest, OfManyRowsOfAScheduleOnlyTheFirstAreInMemoryAndAllAreGranted) {
  TokenManagerOptions options;
  options.group_rows_max = 8;
  TokenWorld world(options);
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(5));
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now();
  for (int i = 0; i < 100; ++i)
    world.AddRow(uid, schedule, {.due = due, .count = 2, .occurrence = "o" + std::to_string(i)});
  const TokenManagerService& service = world.Start("a");
  size_t sent = 0;
  uint64_t most = 0;
  Random& random = world.runtime.random();
  int added = 100;
  for (int i = 0; i < 3000 && sent < 300; ++i) {
    world.Advance(absl::Milliseconds(10));
    sent += world.Handle().size();
    most = std::max<uint64_t>(most, service.stats().rows_in_memory.load());
    // Others come meanwhile, before and behind those in memory.
    if (added < 150 && random.Below(2) == 0)
      world.AddRow(uid, schedule,
                   {.due = due - absl::Milliseconds(random.Below(2)),
                    .count = 2,
                    .occurrence = "o" + std::to_string(added++)});
  }
  EXPECT_EQ(sent, 300);
  EXPECT_LE(most, 17);
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 300);
  EXPECT_TRUE(world.Waiting().empty());
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_EQ(service.stats().rows_in_memory.load(), 0);
  EXPECT_EQ(service.stats().policies_active.load(), 0);
}

TEST(TokenManagerServiceTest, ARowThatWasReadAndGrantedBeforeTheWatchTellsOfItIsNotGrantedAgain) {
  TokenManagerOptions options;
  options.group_rows_max = 2;
  TokenWorld world(options);
  world.poor_store.delay = absl::Seconds(1);
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(0));
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now() + absl::Seconds(10);
  for (int i = 0; i < 4; ++i)
    world.AddRow(uid, schedule, {.due = due, .occurrence = "o" + std::to_string(i)});
  world.Start("a");
  world.Advance(due - absl::Milliseconds(500) - world.now());
  world.AddRow(uid, schedule, {.due = due, .occurrence = "o4"});
  world.Advance(due + absl::Milliseconds(300) - world.now());
  EXPECT_EQ(world.Handle().size(), 5);  // before the watch tells of the last one
  world.Advance(kSettle);
  EXPECT_TRUE(world.Handle().empty());
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 5);
  EXPECT_EQ(world.Counts(policy).granted(), 5);
}

TEST(TokenManagerServiceTest, AWatchThatMissesSomethingCostsNothingButALook) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(4));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 60});
  world.Start("a");
  world.Advance(kSettle);
  std::set<uint64_t> indices;
  for (int i = 0; i < 400 && indices.size() < 60; ++i) {
    for (const SentEvent& event : world.Handle()) {
      EXPECT_TRUE(indices.insert(event.index).second);
      world.poor_store.Lag();
      world.Report(ShardOf(policy), {TokenWorld::EntryOf(event, GrantReportRecord::COMPLETED)});
    }
    world.Advance(absl::Milliseconds(20));
    EXPECT_LE(world.Held(policy), 4);
  }
  EXPECT_EQ(indices.size(), 60);
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 60);
  EXPECT_EQ(world.Part(uid, "o1", policy).granted(), 60);
}

TEST(TokenManagerServiceTest, WithoutRoomInTheStoreItTriesAgain) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 2});
  world.Start("a");
  world.Advance(kSettle);
  const auto sent = world.Handle();
  ASSERT_EQ(sent.size(), 1);
  world.Advance(kSettle);
  world.poor_store.full = true;
  bool effect = false;
  world.manager("a").grants().Apply(
      ShardOf(policy), {TokenWorld::EntryOf(sent[0], GrantReportRecord::COMPLETED)},
      [&](absl::StatusOr<std::vector<bool>> answer) { effect = answer.ok() && (*answer)[0]; });
  world.Advance(absl::Seconds(2));
  EXPECT_FALSE(effect);
  EXPECT_EQ(world.Held(policy), 1);
  EXPECT_TRUE(world.Handle().empty());
  world.poor_store.full = false;
  world.Advance(absl::Seconds(1));
  EXPECT_TRUE(effect);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1);
  EXPECT_EQ(world.Handle().size(), 1);
}

TEST(TokenManagerServiceTest, AtQuietTimesNothingRuns) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  world.PutPolicy("p", TokenWorld::Limits(1));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 10});
  const TokenManagerService& service = world.Start("a");
  world.Advance(kSettle);
  EXPECT_EQ(world.Handle().size(), 1);
  world.Advance(kSettle);
  const uint64_t commits = service.stats().commits.load();
  world.Advance(absl::Seconds(50));
  EXPECT_EQ(service.stats().commits.load(), commits);
}

TEST(TokenManagerServiceTest, AStoreThatIsGoneForAWhileChangesNothing) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  constexpr uint64_t kLimit = 6;
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(kLimit));
  uint64_t most = 0;
  world.on_commit = [&](const kv::CommitRecord&) { most = std::max(most, world.Held(policy)); };
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = 60});
  world.Start("a");
  world.Start("b");
  std::set<uint64_t> done;
  std::vector<SentEvent> out;
  Random& random = world.runtime.random();
  for (int i = 0; i < 4000 && done.size() < 60; ++i) {
    world.Advance(absl::Milliseconds(50));
    if (i % 300 == 299) {
      world.store.Crash(random.Below(2) == 0 ? kv::MemKvStore::Unsynced::kLost
                                             : kv::MemKvStore::Unsynced::kKept);
      world.Advance(absl::Seconds(1));
      world.store.Restart();
      world.store.ConfirmClock();
      world.Advance(absl::Seconds(1));
    }
    for (SentEvent& event : world.Handle()) out.push_back(std::move(event));
    std::vector<SentEvent> left;
    for (SentEvent& event : out) {
      if (random.Below(3) == 0) {
        left.push_back(std::move(event));
        continue;
      }
      world.Report(ShardOf(policy), {TokenWorld::EntryOf(event, GrantReportRecord::COMPLETED)});
      done.insert(event.index);
    }
    out = std::move(left);
  }
  EXPECT_EQ(done.size(), 60);
  EXPECT_LE(most, kLimit);
  world.Advance(absl::Seconds(20));
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 60);
  EXPECT_EQ(world.Held(policy), 0);
  EXPECT_EQ(world.Part(uid, "o1", policy).succeeded(), 60);
  EXPECT_EQ(world.Part(uid, "o1", policy).granted(), 60);
}

}  // namespace
}  // namespace escapement::token_manager
