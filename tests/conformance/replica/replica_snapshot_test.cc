// Snapshots of a replicated store: made, trimmed behind, and restored.

#include <algorithm>
#include <filesystem>
#include <fstream>
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

// The log may have lost rows, have got others instead, and have been trimmed beyond them.
TEST_F(ReplicaSnapshots, CopyThatTheLogHasLeftBehindIsKeptAside) {
  auto a = NewProcess("a:1", 10'000);
  a->AwaitLead();
  Fill(*a, "0");
  auto b = NewProcess("b:1", kNever);
  const auto rows_of_b = [&] { return b->replicated().status().applied_seq; };
  Until(*b, [&] { return rows_of_b() > 0; });
  const uint64_t before = rows_of_b();
  b->Kill();
  // It may have applied some more rows before it ended.
  for (int i = 1; FirstRow() <= before + 50; ++i) Fill(*a, "f" + std::to_string(i) + "-");
  b->Start();
  Until(*b, [&] { return rows_of_b() > before + 50; });
  b->Kill();
  std::vector<std::string> aside;
  for (const auto& entry : std::filesystem::directory_iterator(b->folder() + "/replica")) {
    if (entry.path().filename().string().rfind("db.aside.", 0) == 0) aside.push_back(entry.path());
  }
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(aside.front() + "/CURRENT"));
}

TEST_F(ReplicaSnapshots, DamagedCopyIsKeptAside) {
  auto a = NewProcess("a:1", kNever);
  a->AwaitLead();
  Fill(*a, "a");
  const std::string all = Summary(*a);
  a->HandOver();
  a->Kill();
  const std::string folder = a->folder() + "/replica/db";
  std::ofstream(folder + "/CURRENT") << "nonsense";
  a->Start();
  a->AwaitLead();
  EXPECT_EQ(Summary(*a), all);
  EXPECT_TRUE(std::filesystem::exists(folder + ".aside.damaged"));
}

TEST_F(ReplicaSnapshots, FullDiskLeavesTheCopy) {
  auto a = NewProcess("a:1", kNever);
  a->AwaitLead();
  Fill(*a, "a");
  a->HandOver();
  a->Kill();
  ThreadedLog log(runtime_, engine_);
  ReplicatedKvStore::Options options;
  options.rocks.data_dir = a->folder();
  options.rocks.free_bytes_min = 1000;
  options.rocks.free_bytes = [](const std::string&) { return uint64_t{999}; };
  options.replica.owner = options.replica.address = "nobody";
  JumpingRuntime runtime;
  const absl::Status refused = ReplicatedKvStore::Open(std::move(options), runtime, log).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(std::filesystem::exists(a->folder() + "/replica/db/CURRENT"));
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
