#include "services/token_manager/service/token_manager_service.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_service_test {

using kv::ColumnFamily;

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
  // By it retention knows that there is a run record to be collected with it.
  EXPECT_TRUE(world.Done()[0].run_kept());
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

TEST(TokenManagerServiceTest, LoweredLimitWaitsForHoldersAndRaisedOneGrantsMore) {
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

TEST(TokenManagerServiceTest, CancelledRunKeepsItsTokensAndItsWaitingEventsEnd) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(3));
  const Uid uid = world.AddSchedule("s", schedule);
  const absl::Time due = world.now();
  world.AddRow(uid, schedule, {.due = due, .count = 10});
  world.Start("a");
  world.Advance(kSettle);
  const std::vector<SentEvent> out = world.Handle();
  ASSERT_EQ(out.size(), 3);
  world.AddRow(uid, schedule, {.due = due + absl::Seconds(1), .count = 2, .occurrence = "o2"});
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 1, due + absl::Seconds(1));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 3) << "what is out goes on";
  for (const SentEvent& event : out) EXPECT_TRUE(world.Complete("a", event));
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_CANCELLED), 7);
  for (const storage::v1::DoneRecord& done : world.Done()) {
    EXPECT_EQ(done.reason(),
              done.outcome() == storage::v1::OUTCOME_KIND_CANCELLED ? "overlap" : "");
  }
  const storage::v1::RunPartRecord part = world.Part(uid, "o1", policy);
  EXPECT_EQ(part.cancelled(), 7);
  EXPECT_EQ(part.succeeded(), 3);
  EXPECT_EQ(part.skipped(), 0);
  const std::vector<SentEvent> later = world.Handle();
  ASSERT_EQ(later.size(), 2);
  EXPECT_EQ(later[0].occurrence, "o2");
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

TEST(TokenManagerServiceTest, ARowWrittenAnewByAChangeBackIsNotDroppedForTheFormerOne) {
  TokenWorld world;
  TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(3));
  const Uid uid = world.AddSchedule("s", schedule);
  TokenWorld::Row row{
      .due = absl::FromUnixSeconds(3 * 3600), .count = 2, .occurrence = "19700101T030000-0-UTC"};
  storage::v1::PolicyRecord paused = TokenWorld::Limits(3);
  paused.set_paused(true);
  world.PutPolicy("p", paused);
  world.Start("a");
  const std::string key = world.AddRow(uid, schedule, row);
  world.Advance(kSettle);
  // Away from the occurrence, and back to it with one event more.
  TokenWorld::Schedule away = schedule;
  away.version = 2;
  away.cron = "0 4 * * *";
  world.AddDefinition(uid, away);
  TokenWorld::Schedule back = schedule;
  back.version = 3;
  world.AddDefinition(uid, back);
  world.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 3);
  row.count = 3;
  ASSERT_EQ(world.AddRow(uid, back, row), key);
  world.Advance(kSettle);
  world.PutPolicy("p", TokenWorld::Limits(3));
  world.Advance(kSettle);
  EXPECT_EQ(world.Held(policy), 3);
  EXPECT_EQ(world.Count(ColumnFamily::kDone), 0);
  for (const SentEvent& event : world.Handle()) EXPECT_TRUE(world.Complete("a", event));
  world.Advance(kSettle);
  EXPECT_EQ(world.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 3);
  EXPECT_TRUE(world.Waiting().empty());
}

TEST(TokenManagerServiceTest, RowsWithoutAPolicyHaveNoLimit) {
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

// A manager with a commit under way of the policy shard of `busy`, whose answer does not come
// before LetAnswersGo; events of it and of another policy shard are out.
class CompletionsDuringACommitTest : public ::testing::Test {
 protected:
  // A moment in which only woken work happens.
  static constexpr absl::Duration kMoment = absl::Milliseconds(2);

  CompletionsDuringACommitTest() {
    TokenWorld::Schedule schedule{.policy_id = "busy"};
    busy_ = TokenWorld::ShardOf(world_.PutPolicy("busy", TokenWorld::Limits(10)));
    world_.AddRow(world_.AddSchedule("s", schedule), schedule, {.due = world_.now(), .count = 5});
    other_ = busy_;
    for (int i = 0; other_ == busy_; ++i) {
      schedule.policy_id = "other" + std::to_string(i);
      other_ = TokenWorld::ShardOf(world_.PutPolicy(schedule.policy_id, TokenWorld::Limits(10)));
    }
    world_.AddRow(world_.AddSchedule("t", schedule), schedule, {.due = world_.now(), .count = 2});
    world_.Start("a");
    world_.Advance(kSettle);
    for (SentEvent& event : world_.Handle())
      (event.grant.policy_shard() == busy_ ? of_busy_ : of_other_).push_back(std::move(event));
    world_.Advance(kSettle);
    world_.poor_store.answered_late = [this](const kv::CommitRequest&) {
      return std::exchange(hold_next_, false);
    };
    Complete(of_busy_.at(0));
    world_.Advance(kMoment);
    commits_ = Commits();
  }

  // `done_` has the numbers of those that were completed, in the order of their answers.
  void Complete(const SentEvent& event) {
    world_.manager("a").Apply(
        static_cast<uint16_t>(event.grant.policy_shard()),
        {TokenWorld::EntryOf(event, storage::v1::GrantReportRecord::COMPLETED)},
        [this, index = event.index](absl::StatusOr<std::vector<bool>> result) {
          if (result.ok() && *result == std::vector<bool>{true}) done_.push_back(index);
        });
  }
  uint64_t Commits() { return world_.manager("a").metrics().commits.Value(); }

  TokenWorld world_;
  uint16_t busy_ = 0;
  uint16_t other_ = 0;
  std::vector<SentEvent> of_busy_, of_other_;
  bool hold_next_ = true;
  uint64_t commits_ = 0;
  std::vector<uint64_t> done_;
};

TEST_F(CompletionsDuringACommitTest, TheyGoTogetherAsSoonAsItHasEnded) {
  ASSERT_EQ(of_busy_.size(), 5u);
  for (size_t i = 1; i < of_busy_.size(); ++i) {
    Complete(of_busy_[i]);
    world_.Advance(kMoment);
  }
  EXPECT_TRUE(done_.empty());
  EXPECT_EQ(Commits(), commits_);
  world_.poor_store.LetAnswersGo();
  world_.Advance(kMoment);
  EXPECT_EQ(done_, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(Commits(), commits_ + 1);
}

TEST_F(CompletionsDuringACommitTest, CompletionsOfAnotherPolicyShardDoNotWaitForIt) {
  ASSERT_EQ(of_other_.size(), 2u);
  Complete(of_busy_[1]);
  Complete(of_other_[0]);
  world_.Advance(kMoment);
  EXPECT_EQ(done_, std::vector<uint64_t>{0});
  Complete(of_other_[1]);
  world_.Advance(kMoment);
  EXPECT_EQ(done_, (std::vector<uint64_t>{0, 1}));
}

}  // namespace token_manager_service_test
}  // namespace escapement::token_manager
