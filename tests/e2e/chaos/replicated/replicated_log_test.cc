#include "tests/e2e/chaos/replicated/replicated_log.h"

#include <filesystem>
#include <memory>
#include <string>

#include "common/kv/layout.h"
#include "common/kv/replica/log_record.h"
#include "gtest/gtest.h"

namespace escapement::chaos {
namespace replicated_log_test {

using kv::ColumnFamily;
using kv::LogRow;
using kv::RecordKind;

class LogBuilder {
 public:
  LogBuilder() {
    LogRow first;
    first.position.chain = 77;
    first.data = std::make_shared<const std::string>();
    rows.push_back(first);
  }
  LogBuilder& Add(uint64_t epoch, RecordKind kind, uint64_t seq = 0) {
    kv::RecordWriter record(kind);
    if (seq > 0) {
      record.Put(ColumnFamily::kEvents, "event", std::to_string(seq));
      record.Put(ColumnFamily::kMeta, kv::kSeqKey, kv::EncodeU64(seq));
    }
    rows.push_back(kv::NextRow(rows.back().position, epoch,
                               std::make_shared<const std::string>(record.Take())));
    return *this;
  }
  std::vector<LogRow> rows;
};

LogBuilder GoodLog() {
  LogBuilder log;
  log.Add(1, RecordKind::kLeader).Add(1, RecordKind::kBatch, 2).Add(1, RecordKind::kHandover);
  log.Add(2, RecordKind::kLeader).Add(2, RecordKind::kBatch).Add(2, RecordKind::kBatch, 3);
  log.Add(5, RecordKind::kLeader).Add(5, RecordKind::kBatch, 4).Add(5, RecordKind::kProof);
  return log;
}

std::string Whats(const std::vector<LogRow>& rows) {
  std::string text;
  for (const auto& violation : CheckLogRows(rows)) text += violation.what + ";";
  return text;
}

TEST(ReplicatedLogTest, TermsOneAfterTheOtherAreWellFormed) {
  const LogBuilder log = GoodLog();
  EXPECT_EQ(Whats(log.rows), "");
  const auto state = StateOf(log.rows);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->seq, 4u);
  EXPECT_EQ(state->disk.families[static_cast<size_t>(ColumnFamily::kEvents)].at("event"), "4");
}

TEST(ReplicatedLogTest, RowOfAnOlderTermIsReported) {
  LogBuilder log = GoodLog();
  log.Add(2, RecordKind::kBatch, 5);
  EXPECT_NE(Whats(log.rows).find("row 10 of epoch 2 comes behind epoch 5"), std::string::npos);
}

TEST(ReplicatedLogTest, MissingAndForeignRowsAreReported) {
  LogBuilder missing = GoodLog();
  missing.rows.erase(missing.rows.begin() + 4);
  EXPECT_NE(Whats(missing.rows).find("does not follow on row 3"), std::string::npos);
  LogBuilder changed = GoodLog();
  changed.rows[2].data = std::make_shared<const std::string>("\2");
  EXPECT_NE(Whats(changed.rows).find("row 2 of epoch 1 does not follow on row 1"),
            std::string::npos);
}

TEST(ReplicatedLogTest, BatchBehindItsHandoverIsReported) {
  LogBuilder log;
  log.Add(1, RecordKind::kLeader).Add(1, RecordKind::kHandover).Add(1, RecordKind::kBatch, 1);
  EXPECT_EQ(Whats(log.rows), "row 3 of epoch 1 comes behind its handover;");
}

TEST(ReplicatedLogTest, TermWithoutLeaderRowIsReported) {
  LogBuilder log;
  log.Add(1, RecordKind::kLeader).Add(2, RecordKind::kBatch, 1);
  EXPECT_EQ(Whats(log.rows), "row 2 of epoch 2 begins a term without a leader row;");
}

TEST(ReplicatedLogTest, CommitSequenceThatGoesBackIsReported) {
  LogBuilder log = GoodLog();
  log.Add(5, RecordKind::kBatch, 3);
  EXPECT_EQ(Whats(log.rows), "row 10 of epoch 5 goes back from commit 4 to 3;");
}

std::shared_ptr<const kv::CommitRecord> Commit(uint64_t seq, uint64_t session) {
  auto record = std::make_shared<kv::CommitRecord>();
  record->seq = seq;
  record->request =
      std::make_shared<const kv::CommitRequest>(kv::CommitRequest{.session = session});
  return record;
}

TEST(ReplicatedLogTest, CommitsComeFromTheTermThatWroteTheirRow) {
  const std::string folder = std::string(getenv("TEST_TMPDIR")) + "/terms";
  std::filesystem::create_directories(folder);
  const auto write = [&](uint64_t epoch, uint64_t first, uint64_t last) {
    auto file = CommitFile::BeginTerm(folder, epoch);
    ASSERT_TRUE(file.ok()) << file.status();
    for (uint64_t seq = first; seq <= last; ++seq)
      (*file)->Write({Commit(seq, epoch)}, absl::UnixEpoch());
  };
  // Epoch 1 decides two commits that never reach the log, and epoch 3 one commit.
  write(1, 1, 4);
  write(2, 3, 3);
  write(3, 4, 4);
  write(5, 4, 4);
  const auto files = CommitsOf(GoodLog().rows, folder);
  ASSERT_TRUE(files.ok()) << files.status();
  std::string sessions;
  for (const LoggedCommit& commit : files->commits)
    sessions += std::to_string(commit.record.request->session) + " ";
  EXPECT_EQ(sessions, "1 1 2 5 ");
  EXPECT_EQ(files->undone, 3u);
  EXPECT_EQ(files->lives, 4);

  LogBuilder more = GoodLog();
  more.Add(5, RecordKind::kBatch, 5);
  EXPECT_TRUE(absl::IsDataLoss(CommitsOf(more.rows, folder).status()));
}

}  // namespace replicated_log_test
}  // namespace escapement::chaos
