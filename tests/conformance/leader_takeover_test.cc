// KvClient over LeaderSeekingKvStore: a takeover is to it what a restart of the store is.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/conformance/rigs/kv_rig.h"
#include "tests/conformance/rigs/leader_rig.h"

namespace escapement::kv {
namespace leader_takeover_test {

constexpr ColumnFamily kCf = ColumnFamily::kMeta;

class LeaderTakeover : public testing::Test {
 protected:
  LeaderTakeover() {
    rig_.a.Lead();
    store_ = rig_.ClientOfBoth();
    KvClient::Options options;
    options.name = "test";
    options.on_session_lost = [this] { ++sessions_lost_; };
    options.session_executor = executor_;
    client_ = std::make_unique<KvClient>(*store_, rig_.runtime, std::move(options));
  }
  ~LeaderTakeover() override {
    client_.reset();
    store_.reset();
    executor_->Stop();
  }

  Awaited<CommitResult> Commit(Group group) {
    Awaited<CommitResult> answer;
    client_->CommitAsync({.groups = {std::move(group)}}, executor_, answer.callback());
    return answer;
  }
  // Applies once: a second decision of the same commit would not apply.
  static Group PutOnce(const std::string& key) {
    return {{Cond(kCf, key, Condition::Kind::kAbsent)}, {Put(kCf, key, "v")}};
  }
  std::string Value(const std::string& key) {
    Awaited<GetResult> answer;
    client_->MultiGet({{kCf, key}}, executor_, answer.callback());
    return answer.Wait().value().values.at(0).value_or("none");
  }

  LeaderRig rig_;
  const std::shared_ptr<Executor> executor_ = rig_.runtime.NewExecutor("test");
  std::unique_ptr<LeaderSeekingKvStore> store_;
  std::unique_ptr<KvClient> client_;
  std::atomic<int> sessions_lost_{0};
};

TEST_F(LeaderTakeover, SuccessorGivesTheFirstAnswerOfLostOnes) {
  ASSERT_TRUE(Commit(PutOnce("before")).Wait().ok());
  rig_.a.LoseCommitAnswers();
  const int arrived = rig_.a.arrived();
  std::vector<Awaited<CommitResult>> commits;
  for (int i = 0; i < 20; ++i) commits.push_back(Commit(PutOnce(absl::StrCat("k", i))));
  ASSERT_TRUE(rig_.a.WaitForArrived(arrived + 20));
  // All of them have been decided when this read is answered.
  while (true) {
    Awaited<GetResult> read;
    rig_.state.MultiGet({{kCf, "k19"}}, read.callback());
    if (read.Wait().value().values.at(0).has_value()) break;
  }
  rig_.a.Kill();
  rig_.b.Lead();
  CommitSeq last = 0;
  for (auto& commit : commits) {
    const auto result = commit.Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->verdicts.at(0).applied);
    EXPECT_EQ(result->seq, last == 0 ? result->seq : last + 1);  // as decided at first
    last = result->seq;
  }
  EXPECT_EQ(Value("k0"), "v");
  EXPECT_EQ(sessions_lost_, 0);
}

TEST_F(LeaderTakeover, CommitsOfAnOrderlyHandoverApplyOnce) {
  for (int turn = 0; turn < 6; ++turn) {
    LedStore& from = turn % 2 == 0 ? rig_.a : rig_.b;
    LedStore& to = turn % 2 == 0 ? rig_.b : rig_.a;
    std::vector<Awaited<CommitResult>> commits;
    for (int i = 0; i < 200; ++i) {
      commits.push_back(Commit(PutOnce(absl::StrCat(turn, "/", i))));
      if (i == 100) from.Follow(to.address());
      if (i == 150) to.Lead();
    }
    for (auto& commit : commits) {
      const auto result = commit.Wait();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->verdicts.at(0).applied);
    }
  }
  EXPECT_EQ(sessions_lost_, 0);
}

TEST_F(LeaderTakeover, ClientFollowsSoonAfterALongSearch) {
  ASSERT_TRUE(Commit(PutOnce("before")).Wait().ok());
  rig_.a.Kill();
  const int asked = rig_.b.arrived();
  Awaited<CommitResult> commit = Commit(PutOnce("k"));
  // About 3 s: rounds are up to 250 ms apart.
  ASSERT_TRUE(rig_.b.WaitForArrived(asked + 25));
  const absl::Duration began = rig_.runtime.clock().Elapsed();
  rig_.b.Lead();
  ASSERT_TRUE(commit.Wait().ok());
  const absl::Duration took = rig_.runtime.clock().Elapsed() - began;
  RecordProperty("ms", static_cast<int>(absl::ToInt64Milliseconds(took)));
  printf("the client followed after %s\n", absl::FormatDuration(took).c_str());
  EXPECT_LT(took, absl::Seconds(5));  // far above what a busy machine needs
  EXPECT_EQ(sessions_lost_, 0);
}

}  // namespace leader_takeover_test
}  // namespace escapement::kv
