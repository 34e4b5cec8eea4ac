// Replicas whose snapshots are in S3.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/kv/log/s3/s3_snapshot_log.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/s3_log_rig.h"
#include "tests/conformance/rigs/replica_rig.h"

namespace escapement::kv {
namespace replica_s3_test {

constexpr ColumnFamily kEvents = ColumnFamily::kEvents;

// One replica's log, with the files of snapshots in S3 or not.
class OwnedLog final : public ForwardingLog {
 public:
  struct Logs {
    std::unique_ptr<SharedLog> in_postgres;
    std::unique_ptr<SharedLog> log;
  };
  explicit OwnedLog(Logs logs) : ForwardingLog(*logs.log), logs_(std::move(logs)) {}

 private:
  const Logs logs_;
};

class ReplicasWithS3 : public testing::Test {
 protected:
  std::unique_ptr<ReplicaProcess> NewProcess(const std::string& name, bool with_s3 = true) {
    OwnedLog::Logs logs;
    logs.in_postgres =
        PgLog::Make(runtime_, {.url = TestPostgres().url(), .store = store_}).value();
    S3SnapshotLog::Options options = TestS3Options(store_);
    if (!with_s3) options.address.clear();
    logs.log = S3SnapshotLog::Make(runtime_, *logs.in_postgres, std::move(options)).value();
    ReplicaLoop::Options loop;
    loop.snapshot_log_bytes = 10'000;
    loop.snapshot_check = absl::Milliseconds(10);
    return std::make_unique<ReplicaProcess>(std::make_shared<OwnedLog>(std::move(logs)), name,
                                            RigOptions(), "boot of " + name, std::move(loop));
  }
  absl::StatusOr<CommitResult> Put(KvRig& rig, const std::string& key) {
    return rig.Commit(
        Request(session_, ++number_, {{{}, {kv::Put(kEvents, key, std::string(1000, 'v'))}}}));
  }
  // Commits until snapshots have been made and the rows before them are trimmed.
  void Fill(ReplicaProcess& leader) {
    session_ = leader.OpenSession().value().session;
    const std::string first =
        "SELECT min(seq) FROM escapement.log_rows WHERE seq > 0 AND store = '" + store_ + "'";
    for (int i = 100; TestPostgres().One(first) == "1"; ++i)
      ASSERT_TRUE(Put(leader, std::to_string(i)).ok());
  }
  static std::string Keys(KvRig& rig) {
    std::string keys;
    const ScanResult all = rig.Scan({.cf = kEvents}).value();
    for (const Entry& entry : all.entries) keys += entry.key + " ";
    return keys;
  }
  std::map<std::string, std::string> Objects() {
    std::map<std::string, std::string> objects = TestS3().Objects(kTestBucket);
    std::erase_if(objects, [this](const auto& object) {
      return !absl::StartsWith(object.first, "prod/" + store_ + "/");
    });
    return objects;
  }
  static absl::Status AwaitProblem(ReplicaProcess& process) {
    while (true) {
      if (absl::Status problem = process.replicated().status().problem; !problem.ok())
        return problem;
    }
  }

  const std::string store_ = NewStoreName();
  SystemRuntime runtime_;
  uint64_t session_ = 0;
  uint64_t number_ = 0;
};

TEST_F(ReplicasWithS3, NewReplicaIsRestoredFromS3) {
  auto a = NewProcess("a:1");
  a->AwaitLead();
  Fill(*a);
  EXPECT_FALSE(Objects().empty());
  const std::string all = Keys(*a);
  auto b = NewProcess("b:1");
  b->Await(ReplicaRole::kFollower);
  a->HandOver();
  a->Kill();
  b->AwaitLead();
  EXPECT_EQ(Keys(*b), all);
}

TEST_F(ReplicasWithS3, WrongBytesAreNotRestored) {
  auto a = NewProcess("a:1");
  a->AwaitLead();
  Fill(*a);
  const std::string all = Keys(*a);
  a->Kill();
  std::map<std::string, std::string> objects = Objects();
  for (const auto& [key, bytes] : objects)
    TestS3().Put(kTestBucket, key, std::string(bytes.size(), '?'));
  auto b = NewProcess("b:1");
  const absl::Status problem = AwaitProblem(*b);
  EXPECT_TRUE(absl::IsDataLoss(problem)) << problem;
  EXPECT_TRUE(absl::StrContains(problem.message(), "damaged")) << problem;
}

TEST_F(ReplicasWithS3, ReplicaWithoutTheFlagSaysWhatItLacks) {
  auto a = NewProcess("a:1");
  a->AwaitLead();
  Fill(*a);
  a->Kill();
  auto b = NewProcess("b:1", /*with_s3=*/false);
  const absl::Status problem = AwaitProblem(*b);
  EXPECT_TRUE(absl::StrContains(problem.message(), "s3://snapshots/prod/" + store_)) << problem;
  EXPECT_TRUE(absl::StrContains(problem.message(), "--snapshots")) << problem;
}

}  // namespace replica_s3_test
}  // namespace escapement::kv
