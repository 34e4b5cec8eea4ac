// Replicas over a log in PostgreSQL: takeovers, a crash of the server, and snapshots.

#include <string>

#include "common/kv/log/pg/pg_log.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/pg_log_rig.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/conformance/rigs/replica_rig.h"

namespace escapement::kv {
namespace replica_pg_test {

constexpr ColumnFamily kEvents = ColumnFamily::kEvents;

class ReplicasOverPostgres : public testing::Test {
 protected:
  std::unique_ptr<ReplicaProcess> NewProcess(const std::string& name,
                                             ReplicaLoop::Options loop = {}) {
    std::shared_ptr<SharedLog> log =
        PgLog::Make(runtime_, {.url = TestPostgres().url(), .store = store_}).value();
    return std::make_unique<ReplicaProcess>(std::move(log), name, RigOptions(), "boot of " + name,
                                            std::move(loop));
  }
  absl::StatusOr<CommitResult> Put(KvRig& rig, const std::string& key) {
    return rig.Commit(
        Request(session_, ++number_, {{{}, {kv::Put(kEvents, key, std::string(1000, 'v'))}}}));
  }
  static std::string Keys(KvRig& rig) {
    std::string keys;
    const ScanResult all = rig.Scan({.cf = kEvents}).value();
    for (const Entry& entry : all.entries) keys += entry.key + " ";
    return keys;
  }
  // Waits until the follower has all that the leader has, then lets a silence pass for it.
  void Silence(ReplicaProcess& follower) {
    const auto caught_up = [&] {
      const ReplicaStatus status = follower.replicated().status();
      const std::string last = TestPostgres().One(
          "SELECT max(seq) FROM escapement.log_rows WHERE store = '" + store_ + "'");
      return std::to_string(status.applied_seq) == last && status.applied_seq == status.log_seq;
    };
    while (!caught_up()) {
    }
    follower.runtime().Jump(absl::Seconds(4));
  }

  const std::string store_ = NewStoreName();
  SystemRuntime runtime_;
  uint64_t session_ = 0;
  uint64_t number_ = 0;
};

TEST_F(ReplicasOverPostgres, SuccessorHasEveryAnsweredCommit) {
  auto a = NewProcess("a:1");
  a->AwaitLead();
  auto b = NewProcess("b:1");
  b->Await(ReplicaRole::kFollower);
  session_ = a->OpenSession().value().session;
  ASSERT_TRUE(Put(*a, "1").ok());
  ASSERT_TRUE(Put(*a, "2").ok());
  a->Kill();
  Silence(*b);
  b->AwaitLead();
  ASSERT_TRUE(Put(*b, "3").ok());
  a->Start();
  a->Await(ReplicaRole::kFollower);
  b->HandOver();
  a->AwaitLead();
  EXPECT_EQ(Keys(*a), "1 2 3 ");
}

TEST_F(ReplicasOverPostgres, OlderBackupOfTheLogIsRefused) {
  auto a = NewProcess("a:1");
  a->AwaitLead();
  auto b = NewProcess("b:1");
  b->Await(ReplicaRole::kFollower);
  session_ = a->OpenSession().value().session;
  ASSERT_TRUE(Put(*a, "1").ok());
  const std::string of_store = " FROM escapement.log_rows WHERE store = '" + store_ + "'";
  const std::string backup = TestPostgres().One("SELECT max(seq)" + of_store);
  for (const char* key : {"2", "3", "4", "5"}) ASSERT_TRUE(Put(*a, key).ok());
  Silence(*b);
  b->AwaitLead();  // its leader's record was acknowledged, so its copy knows all of them
  a->Kill();
  b->Kill();
  TestPostgres().One("WITH d AS (DELETE" + of_store + " AND seq > " + backup +
                     " RETURNING 1) SELECT count(*) FROM d");
  for (ReplicaProcess* process : {a.get(), b.get()}) {
    process->Start();
    process->Await(ReplicaRole::kFollower);
    process->runtime().Jump(absl::Seconds(4));
    process->Await(ReplicaRole::kRefusing);
    EXPECT_TRUE(absl::IsDataLoss(process->replicated().status().problem));
  }
}

TEST_F(ReplicasOverPostgres, LeaderOutlivesACrashOfTheServer) {
  auto a = NewProcess("a:1");
  a->AwaitLead();
  session_ = a->OpenSession().value().session;
  ASSERT_TRUE(Put(*a, "1").ok());
  TestPostgres().Crash();
  Awaited<CommitResult> during;
  a->store().Commit(Request(session_, ++number_, {{{}, {kv::Put(kEvents, "2", "v")}}}),
                    during.callback());
  ASSERT_TRUE(TestPostgres().Restart().ok());
  EXPECT_TRUE(during.Wait().ok());
  ASSERT_TRUE(Put(*a, "3").ok());
  EXPECT_EQ(Keys(*a), "1 2 3 ");
}

TEST_F(ReplicasOverPostgres, NewReplicaIsRestoredFromASnapshot) {
  ReplicaLoop::Options loop;
  loop.snapshot_log_bytes = 10'000;
  loop.snapshot_check = absl::Milliseconds(10);
  auto a = NewProcess("a:1", loop);
  a->AwaitLead();
  session_ = a->OpenSession().value().session;
  const std::string first =
      "SELECT min(seq) FROM escapement.log_rows WHERE seq > 0 AND store = '" + store_ + "'";
  for (int i = 100; TestPostgres().One(first) == "1"; ++i)
    ASSERT_TRUE(Put(*a, std::to_string(i)).ok());
  const std::string all = Keys(*a);
  auto b = NewProcess("b:1");
  b->Await(ReplicaRole::kFollower);
  a->HandOver();
  a->Kill();
  b->AwaitLead();
  EXPECT_EQ(Keys(*b), all);
}

}  // namespace replica_pg_test
}  // namespace escapement::kv
