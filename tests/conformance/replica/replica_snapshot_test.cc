// Snapshots of a replicated store: made, trimmed behind, and restored.

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/rigs/replica_rig.h"

namespace escapement::kv {
namespace replica_snapshot_test {

constexpr ColumnFamily kEvents = ColumnFamily::kEvents;

class ReplicaSnapshots : public testing::Test {
 protected:
  std::unique_ptr<ReplicaProcess> NewProcess(std::string name, uint64_t snapshot_log_bytes,
                                             std::shared_ptr<ThreadedLog> log = nullptr) {
    ReplicaLoop::Options loop;
    loop.snapshot_log_bytes = snapshot_log_bytes;
    loop.snapshot_check = absl::Milliseconds(10);
    if (log == nullptr) log = std::make_shared<ThreadedLog>(runtime_, engine_);
    return std::make_unique<ReplicaProcess>(std::move(log), name, RigOptions(), "boot of " + name,
                                            loop);
  }
  static constexpr uint64_t kNever = uint64_t{1} << 60;

  void Fill(KvRig& rig, const std::string& prefix) {
    const uint64_t session = rig.OpenSession().value().session;
    for (uint64_t number = 1; number <= 20; ++number) {
      const std::string key = prefix + std::to_string(100 + number);
      ASSERT_TRUE(
          rig.Commit(Request(session, number, {{{}, {Put(kEvents, key, std::string(1000, 'v'))}}}))
              .ok());
    }
  }
  // The first and the last key, and how many there are.
  static std::string Summary(KvRig& rig) {
    const ScanResult all = rig.Scan({.cf = kEvents, .keys_only = true}).value();
    if (all.entries.empty()) return "none";
    return all.entries.front().key + ".." + all.entries.back().key + ": " +
           std::to_string(all.entries.size());
  }
  size_t Snapshots() {
    return engine_.With([](MemLogState& log) { return log.ListSnapshots().size(); });
  }
  uint64_t FirstRow() {
    return engine_.With([](MemLogState& log) { return log.rows().begin()->first; });
  }
  // Each call lets some time pass.
  template <typename F>
  void Until(KvRig& rig, F condition) {
    while (!condition()) rig.Get({}).status().IgnoreError();
  }

  SystemRuntime runtime_;
  ThreadedLogEngine engine_;
};

TEST_F(ReplicaSnapshots, NewReplicaIsRestoredAfterTheLogWasTrimmed) {
  auto a = NewProcess("a:1", 10'000);
  a->AwaitLead();
  Fill(*a, "a");
  // A lone leader makes the snapshots. Two are kept, and the log behind the older one.
  Until(*a, [&] { return Snapshots() == 1; });
  Fill(*a, "b");
  Until(*a, [&] { return FirstRow() > 1; });
  EXPECT_EQ(Snapshots(), 2u);
  const std::string all = Summary(*a);
  EXPECT_EQ(all, "a101..b120: 40");
  auto b = NewProcess("b:1", kNever);
  b->Await(ReplicaRole::kFollower);
  a->HandOver();
  a->Kill();
  b->AwaitLead();
  EXPECT_EQ(Summary(*b), all);
}

TEST_F(ReplicaSnapshots, LeaderWithoutItsFolderIsRestored) {
  auto a = NewProcess("a:1", 10'000);
  a->AwaitLead();
  Fill(*a, "a");
  Until(*a, [&] { return Snapshots() >= 1; });
  Fill(*a, "b");
  Until(*a, [&] { return FirstRow() > 1; });
  const std::string all = Summary(*a);
  a->HandOver();
  a->Kill();
  a->DeleteFolder();
  a->Start();
  a->AwaitLead();
  EXPECT_EQ(Summary(*a), all);
}

TEST_F(ReplicaSnapshots, FollowerThatTheLogHasLeftBehindIsRestored) {
  auto a = NewProcess("a:1", 10'000);
  a->AwaitLead();
  auto b = NewProcess("b:1", kNever);
  b->Await(ReplicaRole::kFollower);
  b->Kill();
  Fill(*a, "a");
  Until(*a, [&] { return Snapshots() >= 1; });
  Fill(*a, "b");
  Until(*a, [&] { return FirstRow() > 20; });
  const std::string all = Summary(*a);
  b->Start();
  b->Await(ReplicaRole::kFollower);
  a->HandOver();
  a->Kill();
  b->AwaitLead();
  EXPECT_EQ(Summary(*b), all);
}

TEST_F(ReplicaSnapshots, DamagedSnapshotGivesWayToAnOlderOne) {
  auto a = NewProcess("a:1", 10'000);
  a->AwaitLead();
  Fill(*a, "a");
  Until(*a, [&] { return Snapshots() == 1; });
  Fill(*a, "b");
  Until(*a, [&] { return Snapshots() == 2; });
  const std::string all = Summary(*a);
  a->HandOver();
  a->Kill();
  const std::vector<Snapshot> both =
      engine_.With([](MemLogState& log) { return log.ListSnapshots(); });
  auto log = std::make_shared<ThreadedLog>(runtime_, engine_);
  for (const SnapshotFile& file : both[0].files) {
    if (std::find(both[1].files.begin(), both[1].files.end(), file) == both[1].files.end())
      log->Damage(file);
  }
  auto b = NewProcess("b:1", kNever, log);
  b->AwaitLead();
  EXPECT_EQ(Summary(*b), all);
}

}  // namespace replica_snapshot_test
}  // namespace escapement::kv
