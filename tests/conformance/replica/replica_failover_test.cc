// Replicas over one log: what survives when the leader dies, stands still, or loses the log.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/kv/layout.h"
#include "common/kv/not_leader.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/rocks/rocks_database.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/conformance/rigs/replica_rig.h"

namespace escapement::kv {
namespace replica_failover_test {

using Kind = Condition::Kind;
constexpr ColumnFamily kEvents = ColumnFamily::kEvents;
constexpr ColumnFamily kLeases = ColumnFamily::kLeases;
constexpr absl::Duration kLong = absl::Seconds(4);  // more than a silence

class ReplicaFailover : public testing::Test {
 protected:
  // The machine of each process has its own clock.
  std::unique_ptr<ReplicaProcess> NewProcess(std::string name, std::shared_ptr<ThreadedLog> log) {
    const std::string boot_id = "boot of " + name;
    return std::make_unique<ReplicaProcess>(std::move(log), std::move(name), RigOptions(), boot_id);
  }
  ReplicaFailover() {
    a_ = NewProcess("a:1", log_a_);
    a_->AwaitLead();
    b_ = NewProcess("b:1", log_b_);
    b_->Await(ReplicaRole::kFollower);
    session_ = a_->OpenSession().value().session;
  }

  absl::StatusOr<CommitResult> Put(KvRig& rig, const std::string& key) {
    return rig.Commit(Request(session_, ++number_, {{{}, {kv::Put(kEvents, key, "v")}}}));
  }
  // Does not wait for the answer.
  Awaited<CommitResult> SendPut(KvRig& rig, const std::string& key) {
    Awaited<CommitResult> answer;
    rig.store().Commit(Request(session_, ++number_, {{{}, {kv::Put(kEvents, key, "v")}}}),
                       answer.callback());
    return answer;
  }
  // Ends the leader, as far as the follower can see: it has been silent for longer than it may.
  void Silence(ReplicaProcess& follower) {
    const auto behind = [&] {
      const uint64_t last = engine_.With([](auto& log) { return log.state().last.seq; });
      const ReplicaStatus status = follower.replicated().status();
      return status.applied_seq != last || status.log_seq != last;
    };
    // Each call lets some time pass.
    while (behind()) follower.Get({}).status().IgnoreError();
    follower.runtime().Jump(kLong);
  }
  // Returns the address that a replica answers once it knows who leads.
  std::string KnownLeader(KvRig& rig) {
    std::string address;
    while (address.empty()) address = LeaderAddressOf(rig.Get({}).status()).value();
    return address;
  }
  // Asks again while the leader's lease has run out: a jump of the clock may have ended it.
  std::string Keys(KvRig& rig) {
    std::string keys;
    auto result = rig.Scan({.cf = kEvents});
    while (LeaderAddressOf(result.status()) == "") result = rig.Scan({.cf = kEvents});
    if (!result.ok()) return result.status().ToString();
    for (const Entry& entry : result->entries) keys += entry.key + " ";
    return keys;
  }

  SystemRuntime runtime_;
  ThreadedLogEngine engine_;
  std::shared_ptr<ThreadedLog> log_a_ = std::make_shared<ThreadedLog>(runtime_, engine_);
  std::shared_ptr<ThreadedLog> log_b_ = std::make_shared<ThreadedLog>(runtime_, engine_);
  std::unique_ptr<ReplicaProcess> a_;
  std::unique_ptr<ReplicaProcess> b_;
  uint64_t session_ = 0;
  uint64_t number_ = 0;
};

TEST_F(ReplicaFailover, FollowerTurnsEveryCallAwayToTheLeader) {
  EXPECT_EQ(LeaderAddressOf(b_->OpenSession().status()), "a:1");
  EXPECT_EQ(LeaderAddressOf(Put(*b_, "k").status()), "a:1");
  EXPECT_EQ(LeaderAddressOf(b_->Get({}).status()), "a:1");
  EXPECT_EQ(LeaderAddressOf(b_->Scan({}).status()), "a:1");
  WatchLog log;
  auto watch = b_->store().OpenWatch({kEvents, "", "", kWatchFromNow, 0}, log.observer());
  EXPECT_EQ(LeaderAddressOf(*log.WaitForLag()), "a:1");
  Awaited<ClockState> clock;
  b_->store().AskClock({}, clock.callback());
  EXPECT_EQ(LeaderAddressOf(clock.Wait().status()), "a:1");
}

TEST_F(ReplicaFailover, SuccessorHasEveryAnsweredCommitAndTheFirstAnswers) {
  CommitResult last;
  for (int i = 0; i < 20; ++i) last = Put(*a_, "k" + std::to_string(100 + i)).value();
  const auto repeated = Request(session_, number_, {{{}, {kv::Put(kEvents, "other", "v")}}});
  const std::string keys = Keys(*a_);
  a_->Kill();
  Silence(*b_);
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), keys);
  // The session lives on: a commit that is sent again gets its first answer.
  EXPECT_EQ(b_->Commit(repeated).value().seq, last.seq);
  EXPECT_EQ(Put(*b_, "z").value().seq, last.seq + 1);
  EXPECT_EQ(Keys(*b_), keys + "z ");
}

TEST_F(ReplicaFailover, FormerLeaderFollowsAndLeadsAgain) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  a_->Kill();
  Silence(*b_);
  b_->AwaitLead();
  ASSERT_TRUE(Put(*b_, "b").ok());
  a_->Start();
  a_->Await(ReplicaRole::kFollower);
  b_->HandOver();
  a_->AwaitLead();
  EXPECT_EQ(Keys(*a_), "a b ");
  EXPECT_EQ(LeaderAddressOf(b_->Get({}).status()).has_value(), true);
}

TEST_F(ReplicaFailover, HandoverNeedsNoSilence) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  a_->HandOver();
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), "a ");
  a_->Await(ReplicaRole::kFollower);
}

// The leader stands still between its decision and the append, longer than a silence.
TEST_F(ReplicaFailover, ZombieAnswersNothingUntrue) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  WatchLog seen;
  auto watch = a_->store().OpenWatch({kEvents, "", "", kWatchFromNow, 0}, seen.observer());
  ASSERT_TRUE(Put(*a_, "b").ok());
  seen.WaitFor(1);
  log_a_->Hold();
  auto late = SendPut(*a_, "late");
  log_a_->AwaitHeldAppends(1);
  auto later = SendPut(*a_, "later");
  log_a_->AwaitHeldAppends(2);
  a_->runtime().Jump(kLong);
  Silence(*b_);
  b_->AwaitLead();
  const uint64_t session = b_->OpenSession().value().session;
  ASSERT_TRUE(b_->Commit(Request(session, 1, {{{}, {kv::Put(kEvents, "new", "v")}}})).ok());
  // It does not know of the new leader yet, and answers no read.
  EXPECT_TRUE(LeaderAddressOf(a_->Get({{kEvents, "new"}}).status()).has_value());
  log_a_->Go();
  EXPECT_TRUE(absl::IsUnavailable(late.Wait().status()));
  EXPECT_TRUE(absl::IsUnavailable(later.Wait().status()));
  EXPECT_TRUE(LeaderAddressOf(*seen.WaitForLag()).has_value());
  EXPECT_EQ(seen.seqs().size(), 1u);  // it has seen "b" and nothing later
  a_->Await(ReplicaRole::kFollower);
  EXPECT_EQ(KnownLeader(*a_), "b:1");
  EXPECT_EQ(Keys(*b_), "a b new ");
  // Its copy has nothing of what was not acknowledged.
  b_->HandOver();
  a_->AwaitLead();
  EXPECT_EQ(Keys(*a_), "a b new ");
}

TEST_F(ReplicaFailover, LeaderWithoutTheLogAnswersNoRead) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  EXPECT_EQ(Keys(*a_), "a ");
  log_a_->Hold();
  log_a_->AwaitHeldAppends(1);  // a beat
  a_->runtime().Jump(kLeaseMax);
  EXPECT_TRUE(LeaderAddressOf(a_->Get({}).status()).has_value());
  EXPECT_GE(a_->replicated().status().unacknowledged, kLeaseMax);
  log_a_->Go();
  // No other store has led, so it goes on.
  ASSERT_TRUE(Put(*a_, "b").ok());
  EXPECT_LT(a_->replicated().status().unacknowledged, kLeaseMax);
  EXPECT_EQ(Keys(*a_), "a b ");
}

TEST_F(ReplicaFailover, CommitWithALostAnswerHasOneEffect) {
  log_a_->LoseAnswers(3);
  EXPECT_EQ(Put(*a_, "a").value().seq, 1u);
  log_a_->LoseAnswers(1);
  EXPECT_EQ(Put(*a_, "b").value().seq, 2u);
  EXPECT_EQ(Keys(*a_), "a b ");
  a_->HandOver();
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), "a b ");
}

TEST_F(ReplicaFailover, TwoRowsWithLostAnswersHaveOneEffectEach) {
  log_a_->Hold();
  auto a = SendPut(*a_, "a");
  log_a_->AwaitHeldAppends(1);
  auto b = SendPut(*a_, "b");
  log_a_->AwaitHeldAppends(2);
  log_a_->LoseAnswers(2);
  log_a_->Go();
  EXPECT_EQ(a.Wait().value().seq, 1u);
  EXPECT_EQ(b.Wait().value().seq, 2u);
  EXPECT_EQ(Keys(*a_), "a b ");
  a_->HandOver();
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), "a b ");
}

// As after a failover to a standby that lacks the last rows.
TEST_F(ReplicaFailover, LeaderAppendsAgainWhatTheLogHasLost) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  const MemLogState old = engine_.With([](MemLogState& log) { return log; });
  ASSERT_TRUE(Put(*a_, "b").ok());
  ASSERT_TRUE(Put(*a_, "c").ok());
  engine_.With([&old](MemLogState& log) { return (log = old).state(); });
  ASSERT_TRUE(Put(*a_, "d").ok());
  EXPECT_EQ(Keys(*a_), "a b c d ");
  a_->HandOver();
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), "a b c d ");
}

TEST_F(ReplicaFailover, ClientThatHasSeenMoreThanTheLogHoldsIsRefused) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  const MemLogState old = engine_.With([](MemLogState& log) { return log; });
  b_->Kill();  // it never reads "b", otherwise it would refuse the log
  // So many that b's rows, one each half second, do not reach them during the test.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(*a_, "b").ok());
  const SessionInfo seen = a_->OpenSession().value();
  a_->Kill();
  engine_.With([&old](MemLogState& log) { return (log = old).state(); });
  b_->Start();
  b_->Await(ReplicaRole::kFollower);
  Silence(*b_);
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), "a ");
  EXPECT_TRUE(absl::IsFailedPrecondition(b_->OpenSession(seen.incarnation, seen.seq).status()));
  EXPECT_TRUE(b_->OpenSession().ok());

  // Once an operator has accepted the loss, every client starts over, also under later leaders.
  RigOptions options;
  options.accept_loss = true;
  auto log = std::make_shared<ThreadedLog>(runtime_, engine_);
  ReplicaProcess c(log, "c:1", options, "boot of c:1");
  c.Await(ReplicaRole::kFollower);
  b_->HandOver();
  b_->Kill();
  c.AwaitLead();
  EXPECT_EQ(Keys(c), "a ");
  const SessionInfo renewed = c.OpenSession(seen.incarnation, seen.seq).value();
  EXPECT_GT(renewed.incarnation, seen.incarnation);
  b_->Start();
  b_->Await(ReplicaRole::kFollower);
  c.HandOver();
  b_->AwaitLead();
  EXPECT_EQ(b_->OpenSession(renewed.incarnation, renewed.seq).value().incarnation,
            renewed.incarnation);
  b_->HandOver();
  c.AwaitLead();
  EXPECT_EQ(c.OpenSession().value().incarnation, renewed.incarnation);
}

// As after a restore of PostgreSQL from an older base backup, or after a promotion of a standby
// that lacks commits.
TEST_F(ReplicaFailover, LogThatLacksAcknowledgedCommitsIsRefused) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  const MemLogState old = engine_.With([](MemLogState& log) { return log; });
  for (const char* key : {"b", "c", "d"}) ASSERT_TRUE(Put(*a_, key).ok());
  a_->HandOver();
  b_->AwaitLead();
  b_->HandOver();
  a_->AwaitLead();
  a_->Kill();
  b_->Kill();
  const MemLogState whole = engine_.With([](MemLogState& log) { return log; });
  engine_.With([&old](MemLogState& log) { return (log = old).state(); });
  for (ReplicaProcess* process : {a_.get(), b_.get()}) {
    process->Start();
    process->Await(ReplicaRole::kFollower);
    process->runtime().Jump(kLong);
    process->Await(ReplicaRole::kRefusing);
    EXPECT_TRUE(absl::IsDataLoss(process->replicated().status().problem));
  }
  // A restart accepts nothing, and after a repair of the log everything is there.
  a_->Kill();
  a_->Start();
  a_->Await(ReplicaRole::kRefusing);
  engine_.With([&whole](MemLogState& log) { return (log = whole).state(); });
  a_->Await(ReplicaRole::kFollower);
  b_->Await(ReplicaRole::kFollower);
  Silence(*a_);
  a_->AwaitLead();
  EXPECT_EQ(Keys(*a_), "a b c d ");
}

TEST_F(ReplicaFailover, AcceptedLossKeepsTheCopyAside) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  const MemLogState old = engine_.With([](MemLogState& log) { return log; });
  for (const char* key : {"b", "c", "d"}) ASSERT_TRUE(Put(*a_, key).ok());
  a_->Kill();
  b_->Kill();
  engine_.With([&old](MemLogState& log) { return (log = old).state(); });
  a_->options().accept_loss = true;
  a_->Start();
  a_->Await(ReplicaRole::kFollower);
  const std::string folder = a_->folder() + "/replica";
  const auto is_aside = [&folder] {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().rfind("db.aside.", 0) == 0) return true;
    }
    return false;
  };
  a_->runtime().Jump(kLong);
  // Each call lets some time pass.
  while (!is_aside()) a_->Get({}).status().IgnoreError();
  Silence(*a_);
  a_->AwaitLead();
  EXPECT_EQ(Keys(*a_), "a ");
}

// As after the schema was dropped, or with the address of another installation's log.
TEST_F(ReplicaFailover, AnotherLogIsRefused) {
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(*a_, key).ok());
  a_->Kill();
  b_->Kill();
  const MemLogState whole = engine_.With([](MemLogState& log) { return log; });
  engine_.With([](MemLogState& log) { return (log = MemLogState()).state(); });
  a_->Start();
  a_->Await(ReplicaRole::kRefusing);
  // A replica with an empty folder begins a new log.
  auto c = NewProcess("c:1", std::make_shared<ThreadedLog>(runtime_, engine_));
  c->AwaitLead();
  const uint64_t session = c->OpenSession().value().session;
  ASSERT_TRUE(c->Commit(Request(session, 1, {{{}, {kv::Put(kEvents, "new", "v")}}})).ok());
  b_->Start();
  b_->Await(ReplicaRole::kRefusing);
  EXPECT_TRUE(absl::IsDataLoss(b_->replicated().status().problem));
  c->Kill();
  engine_.With([&whole](MemLogState& log) { return (log = whole).state(); });
  a_->Await(ReplicaRole::kFollower);
  b_->Await(ReplicaRole::kFollower);
  Silence(*b_);
  b_->AwaitLead();
  EXPECT_EQ(Keys(*b_), "a b c ");
}

// Copies of versions before the log had a name do not have it.
TEST_F(ReplicaFailover, OlderCopyLearnsItsLogAndRefusesAnotherOne) {
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(Put(*a_, key).ok());
  const auto b_is_whole = [&] {
    const ReplicaStatus status = b_->replicated().status();
    return status.log_seq > 0 && status.applied_seq == status.log_seq;
  };
  while (!b_is_whole()) b_->Get({}).status().IgnoreError();
  b_->Kill();
  const auto with_place = [&](const std::function<void(std::string&)>& change) {
    RocksDatabase::Options options;
    options.block_cache_bytes = options.write_buffer_bytes = 1 << 20;
    auto database = RocksDatabase::Open(b_->folder() + "/replica/db", options).value();
    std::string place;
    ASSERT_TRUE(database->Get(ColumnFamily::kMeta, kLogPlaceKey, place));
    change(place);
    database->batch().Put(ColumnFamily::kMeta, kLogPlaceKey, place);
    database->Write();
  };
  with_place([](std::string& place) { place.resize(kLogPlaceBasicBytes); });
  b_->Start();
  while (!b_is_whole()) b_->Get({}).status().IgnoreError();
  b_->Kill();
  with_place([&](std::string& place) {
    EXPECT_EQ(DecodeLogPlace(place)->genesis,
              engine_.With([](auto& log) { return log.state().first.chain; }));
  });
  a_->Kill();
  engine_.With([](MemLogState& log) { return (log = MemLogState()).state(); });
  auto c = NewProcess("c:1", std::make_shared<ThreadedLog>(runtime_, engine_));
  c->AwaitLead();
  b_->Start();
  b_->Await(ReplicaRole::kRefusing);
}

TEST_F(ReplicaFailover, FolderCanBeDeleted) {
  ASSERT_TRUE(Put(*a_, "a").ok());
  a_->HandOver();
  b_->AwaitLead();
  a_->Kill();
  a_->DeleteFolder();
  ASSERT_TRUE(Put(*b_, "b").ok());
  a_->Start();
  a_->Await(ReplicaRole::kFollower);
  b_->HandOver();
  b_->Kill();
  a_->AwaitLead();
  EXPECT_EQ(Keys(*a_), "a b ");
}

TEST_F(ReplicaFailover, StoreTimeGoesOnOnAnotherMachine) {
  b_->runtime().SetWall(absl::Milliseconds(-300));
  a_->runtime().SetWall(absl::Milliseconds(400));
  const absl::Time before = Put(*a_, "a").value().store_time;
  a_->HandOver();
  b_->AwaitLead();
  const absl::Time after = Put(*b_, "b").value().store_time;
  EXPECT_GT(after, before);
  EXPECT_LT(after, before + absl::Seconds(2));  // not an interval of records later
  b_->HandOver();
  a_->AwaitLead();
  EXPECT_GT(Put(*a_, "c").value().store_time, after);
}

// A third process, whose leases last for `ttl`; a lease that has passed at the leader.
class ReplicaLeases : public ReplicaFailover {
 protected:
  void SetUp() override {
    b_->Kill();
    Mutation stamped = kv::Put(kLeases, "l", std::string(8, '\0'));
    stamped.kind = Mutation::Kind::kPutStamped;
    ASSERT_TRUE(a_->Commit(Request(session_, ++number_, {{{}, {stamped}}})).ok());
    EXPECT_TRUE(Passed(*a_));
  }
  std::unique_ptr<ReplicaProcess> Follower(absl::Duration ttl) {
    RigOptions options;
    options.lease_ttl = ttl;
    auto follower = std::make_unique<ReplicaProcess>(
        std::make_shared<ThreadedLog>(runtime_, engine_), "c:1", options);
    follower->Await(ReplicaRole::kFollower);
    return follower;
  }
  bool Passed(KvRig& rig) {
    return rig
        .Commit(Request(session_, ++number_, {{{Cond(kLeases, "l", Kind::kStampPassed)}, {}}}))
        .value()
        .verdicts[0]
        .applied;
  }
};

TEST_F(ReplicaLeases, NoneIsTakenOverRightAfterAHandover) {
  const auto c = Follower(absl::Seconds(1));
  a_->HandOver();
  c->AwaitLead();
  EXPECT_FALSE(Passed(*c));
  c->runtime().Jump(absl::Seconds(1));
  EXPECT_TRUE(Passed(*c));
}

// Leases that the former leader has granted began before its silence.
TEST_F(ReplicaLeases, TheSilenceOfADeadLeaderCounts) {
  const auto c = Follower(kLong + absl::Seconds(60));
  a_->Kill();
  Silence(*c);
  c->AwaitLead();
  EXPECT_FALSE(Passed(*c));
  c->runtime().Jump(absl::Seconds(60));
  EXPECT_TRUE(Passed(*c));
}

}  // namespace replica_failover_test
}  // namespace escapement::kv
