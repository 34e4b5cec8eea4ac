#include "tests/e2e/chaos/base/commit_file.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::chaos {
namespace commit_file_test {

class CommitFileTest : public testing::Test {
 protected:
  CommitFileTest() {
    folder_ = absl::StrCat(testing::TempDir(), "/commits-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }

  static std::shared_ptr<const kv::CommitRecord> Record(kv::CommitSeq seq, const std::string& key) {
    kv::CommitRequest request;
    request.session = 7;
    request.number = seq;
    request.fence.push_back({.cf = kv::ColumnFamily::kLeases,
                             .key = "lease",
                             .kind = kv::Condition::Kind::kValuePrefix,
                             .value = "epoch"});
    request.groups.resize(2);
    request.groups[1].mutations.push_back({.cf = kv::ColumnFamily::kDone,
                                           .kind = kv::Mutation::Kind::kPutStamped,
                                           .key = key,
                                           .value = "value"});
    auto record = std::make_shared<kv::CommitRecord>();
    record->request = std::make_shared<const kv::CommitRequest>(std::move(request));
    record->seq = seq;
    record->store_time = absl::FromUnixMicros(1000 + static_cast<int64_t>(seq));
    record->verdicts = {{.applied = false}, {.applied = true}};
    record->stamped = {"stamped"};
    return record;
  }
  void Live(kv::CommitSeq found,
            const std::vector<std::pair<kv::CommitSeq, std::string>>& commits) {
    auto file = CommitFile::Begin(folder_, found).value();
    for (const auto& [seq, key] : commits)
      file->Write({Record(seq, key)}, absl::FromUnixMicros(2000 + static_cast<int64_t>(seq)));
  }
  static std::string KeyOf(const LoggedCommit& commit) {
    return commit.record.request->groups[1].mutations[0].key;
  }

  std::string folder_;
};

TEST_F(CommitFileTest, ARecordComesBackAsItWasDecided) {
  Live(0, {{1, "a"}});
  const CommitFiles files = ReadCommitFiles(folder_, 1).value();
  ASSERT_EQ(files.commits.size(), 1u);
  const LoggedCommit& commit = files.commits[0];
  EXPECT_EQ(commit.record.seq, 1u);
  EXPECT_EQ(commit.record.store_time, absl::FromUnixMicros(1001));
  EXPECT_EQ(commit.time, absl::FromUnixMicros(2001));
  ASSERT_EQ(commit.record.verdicts.size(), 2u);
  EXPECT_FALSE(commit.record.verdicts[0].applied);
  EXPECT_TRUE(commit.record.verdicts[1].applied);
  EXPECT_EQ(commit.record.stamped, std::vector<std::string>{"stamped"});
  EXPECT_EQ(commit.record.request->fence[0].value, "epoch");
  EXPECT_EQ(KeyOf(commit), "a");
  EXPECT_EQ(commit.record.request->groups[1].mutations[0].kind, kv::Mutation::Kind::kPutStamped);
}

TEST_F(CommitFileTest, DecisionOfAKilledLifeThatWasNotDurableNeverWas) {
  Live(0, {{1, "a"}, {2, "b"}, {3, "never"}});
  Live(2, {{3, "c"}, {4, "never"}});
  const CommitFiles files = ReadCommitFiles(folder_, 3).value();
  ASSERT_EQ(files.commits.size(), 3u);
  EXPECT_EQ(KeyOf(files.commits[2]), "c");
  EXPECT_EQ(files.undone, 2u);
  EXPECT_EQ(files.lives, 2);
}

TEST_F(CommitFileTest, ATornEndIsNoCommit) {
  Live(0, {{1, "a"}, {2, "torn"}});
  const std::string path = folder_ + "/000000.commits";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  Live(1, {{2, "b"}});
  const CommitFiles files = ReadCommitFiles(folder_, 2).value();
  ASSERT_EQ(files.commits.size(), 2u);
  EXPECT_EQ(KeyOf(files.commits[1]), "b");
}

TEST_F(CommitFileTest, AStoreThatHoldsMoreThanItsFilesIsRefused) {
  Live(0, {{1, "a"}});
  EXPECT_TRUE(absl::IsDataLoss(ReadCommitFiles(folder_, 2).status()));
  Live(2, {});
  EXPECT_TRUE(absl::IsDataLoss(ReadCommitFiles(folder_, 1).status()));
}

TEST_F(CommitFileTest, AGapBetweenCommitsIsRefused) {
  Live(0, {{1, "a"}, {3, "c"}});
  EXPECT_TRUE(absl::IsDataLoss(ReadCommitFiles(folder_, 2).status()));
}

}  // namespace commit_file_test
}  // namespace escapement::chaos
