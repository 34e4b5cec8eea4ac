// A store that is moved from its data folder into a shared log, and back.

#include <stdlib.h>

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/kv/replica/move_store.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/replica_rig.h"

namespace escapement::kv {
namespace replica_move_test {

namespace fs = std::filesystem;

constexpr ColumnFamily kEvents = ColumnFamily::kEvents;

// A store that is not replicated.
class LocalRig final : public KvRig {
 public:
  explicit LocalRig(RocksKvStore::Options options)
      : options_(std::move(options)),
        store_(RocksKvStore::Open(options_, runtime_.clock()).value()) {}
  KvStore& store() override { return *store_; }
  void Restart() override {
    store_.reset();
    store_ = RocksKvStore::Open(options_, runtime_.clock()).value();
  }

 private:
  const RocksKvStore::Options options_;
  SystemRuntime runtime_;
  std::unique_ptr<RocksKvStore> store_;
};

class ReplicaMove : public testing::Test {
 protected:
  ReplicaMove() {
    const char* base = getenv("TEST_TMPDIR");
    folder_ = absl::StrCat(base != nullptr ? base : "/tmp", "/move-XXXXXX");
    folder_ = mkdtemp(folder_.data());
  }
  ~ReplicaMove() override { fs::remove_all(folder_); }

  RocksKvStore::Options Local(const std::string& name) const {
    RocksKvStore::Options options;
    options.data_dir = absl::StrCat(folder_, "/", name);
    options.lease_ttl = absl::ZeroDuration();
    options.block_cache_bytes = 8 << 20;
    options.write_buffer_bytes = 4 << 20;
    options.free_bytes_min = 0;
    return options;
  }
  std::unique_ptr<ReplicaProcess> NewReplica(std::string name) {
    return std::make_unique<ReplicaProcess>(log_, std::move(name));
  }
  absl::Status Put(KvRig& rig, const std::string& key) {
    return rig.Commit(Numbered(++number_, key)).status();
  }
  CommitRequest Numbered(uint64_t number, const std::string& key) const {
    return Request(session_, number, {{{}, {kv::Put(kEvents, key, "v")}}});
  }
  static std::string Keys(KvRig& rig) {
    std::string keys;
    auto result = rig.Scan({.cf = kEvents});
    if (!result.ok()) return result.status().ToString();
    for (const Entry& entry : result->entries) keys += entry.key + " ";
    return keys;
  }
  // A store that has the keys a and b.
  void MakeStore(const std::string& name) {
    LocalRig rig(Local(name));
    const SessionInfo session = rig.OpenSession().value();
    session_ = session.session;
    incarnation_ = session.incarnation;
    ASSERT_TRUE(Put(rig, "a").ok());
    first_answer_ = rig.Commit(Numbered(++number_, "b")).value();
  }

  std::string folder_;
  SystemRuntime runtime_;
  ThreadedLogEngine engine_;
  std::shared_ptr<ThreadedLog> log_ = std::make_shared<ThreadedLog>(runtime_, engine_);
  uint64_t session_ = 0;
  uint64_t incarnation_ = 0;
  uint64_t number_ = 0;
  CommitResult first_answer_;
};

TEST_F(ReplicaMove, AStoreGoesIntoALogAndBackWithItsSessions) {
  MakeStore("single");
  const absl::Status moved = MoveStoreIntoLog(Local("single"), runtime_, *log_);
  ASSERT_TRUE(moved.ok()) << moved;
  // The folder cannot be served as it was, by mistake.
  EXPECT_FALSE(fs::exists(folder_ + "/single/db"));
  auto a = NewReplica("a:1");
  a->AwaitLead();
  EXPECT_EQ(Keys(*a), "a b ");
  EXPECT_EQ(a->OpenSession().value().incarnation, incarnation_);
  EXPECT_EQ(a->Commit(Numbered(number_, "other")).value().seq, first_answer_.seq);
  ASSERT_TRUE(Put(*a, "c").ok());
  auto b = NewReplica("b:1");
  b->Await(ReplicaRole::kFollower);
  a->HandOver();
  b->AwaitLead();
  ASSERT_TRUE(Put(*b, "d").ok());
  EXPECT_EQ(Keys(*b), "a b c d ");

  // While a replica leads, the store does not move out.
  EXPECT_EQ(MoveStoreOutOfLog(Local("back"), runtime_, *log_).code(),
            absl::StatusCode::kFailedPrecondition);
  const uint64_t epoch = b->replicated().status().leader.epoch;
  a->Kill();
  b->HandOver();
  b->Kill();
  const absl::Status back = MoveStoreOutOfLog(Local("back"), runtime_, *log_);
  ASSERT_TRUE(back.ok()) << back;
  {
    LocalRig rig(Local("back"));
    EXPECT_EQ(Keys(rig), "a b c d ");
    EXPECT_EQ(rig.OpenSession().value().incarnation, incarnation_);
    EXPECT_EQ(rig.Commit(Numbered(2, "other")).value().seq, first_answer_.seq);
    ASSERT_TRUE(Put(rig, "e").ok());
    rig.Restart();
    EXPECT_EQ(Keys(rig), "a b c d e ");
  }
  // A replica that was forgotten does not lead any more.
  b->Start();
  b->runtime().Jump(absl::Seconds(10));
  while (b->replicated().status().problem.ok()) b->Get({}).status().IgnoreError();
  EXPECT_EQ(b->replicated().status().role, ReplicaRole::kFollower);
  EXPECT_TRUE(absl::IsFailedPrecondition(b->replicated().status().problem));
  EXPECT_EQ(engine_.With([](auto& log) { return log.state().leader.epoch; }), epoch + 1);
}

TEST_F(ReplicaMove, AnAttemptThatWasCutOffIsRepeated) {
  MakeStore("single");
  // The row is in the log, and the snapshot is not.
  const std::string copy = folder_ + "/copy";
  fs::copy(folder_ + "/single", copy, fs::copy_options::recursive);
  ASSERT_TRUE(MoveStoreIntoLog(Local("copy"), runtime_, *log_).ok());
  ThreadedLogEngine cut;
  engine_.With([&](MemLogState& log) {
    const LogState state = log.state();
    const LogRow row = log.rows().at(1);
    cut.With([&](MemLogState& other) {
      const LeadResult led = other.Lead({{}, "somebody", ""}, state.first.chain).value();
      const LogRow again = NextRow(led.first, led.term.epoch, row.data);
      EXPECT_EQ(other.Append({led.term, led.first, {again}}).outcome,
                AppendResult::Outcome::kAcknowledged);
    });
  });
  auto log = std::make_shared<ThreadedLog>(runtime_, cut);
  // A replica waits for the snapshot instead of beginning an empty store.
  ReplicaProcess early(log, "early:1");
  early.Await(ReplicaRole::kFollower);
  early.runtime().Jump(absl::Seconds(10));
  while (early.replicated().status().problem.ok()) early.Get({}).status().IgnoreError();
  EXPECT_EQ(early.replicated().status().role, ReplicaRole::kFollower);
  const absl::Status moved = MoveStoreIntoLog(Local("single"), runtime_, *log);
  ASSERT_TRUE(moved.ok()) << moved;
  while (early.replicated().status().applied_seq == 0) early.Get({}).status().IgnoreError();
  early.runtime().Jump(absl::Seconds(10));
  early.AwaitLead();
  EXPECT_EQ(Keys(early), "a b ");
}

TEST_F(ReplicaMove, ALogWithAStoreIsNotOverwritten) {
  auto a = NewReplica("a:1");
  a->AwaitLead();
  MakeStore("single");
  EXPECT_EQ(MoveStoreIntoLog(Local("single"), runtime_, *log_).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder_ + "/single/db"));
  MakeStore("other");
  EXPECT_EQ(MoveStoreOutOfLog(Local("other"), runtime_, *log_).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MoveStoreIntoLog(Local("nothing"), runtime_, *log_).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace replica_move_test
}  // namespace escapement::kv
