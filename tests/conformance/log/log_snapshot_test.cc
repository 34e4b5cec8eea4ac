// Snapshots and trims of every SharedLog.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/log_rig.h"

namespace escapement::kv {
namespace log_snapshot_test {

using Outcome = AppendResult::Outcome;

struct RigKind {
  const char* name;
  std::unique_ptr<LogRig> (*make)();
};

class LogSnapshots : public testing::TestWithParam<RigKind> {
 protected:
  LogSnapshots() : rig_(GetParam().make()), led_(rig_->Lead(0, "a")), end_(led_.last) {}

  LogPosition Append(const std::string& row) {
    const AppendRequest request = Rows(led_.term, end_, {row});
    const AppendResult result = rig_->Append(0, request);
    EXPECT_EQ(result.outcome, Outcome::kAcknowledged) << result.why;
    return end_ = EndOf(request);
  }
  void Upload(const std::string& bytes) {
    const absl::Status status = rig_->PutFile(1, bytes);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<SnapshotFile> Missing(const std::vector<SnapshotFile>& files) {
    return rig_->MissingFiles(1, files).value();
  }
  // A snapshot of the log's end with one small file.
  Snapshot Take() {
    const std::string bytes = absl::StrCat("state ", end_.seq);
    Upload(bytes);
    Snapshot snapshot{end_, {FileOf(bytes)}, "details"};
    const absl::Status status = rig_->PutSnapshot(1, snapshot);
    EXPECT_TRUE(status.ok()) << status;
    return snapshot;
  }
  void TrimAll(uint32_t kept) {
    const absl::Status status = rig_->TrimAll(0, kept);
    EXPECT_TRUE(status.ok()) << status;
  }

  const std::unique_ptr<LogRig> rig_;
  const LeadResult led_;
  LogPosition end_;
};

TEST_P(LogSnapshots, WholeSnapshotIsReadBack) {
  const std::string large(2 * kSnapshotPartBytes + 5, 'x');
  const std::string empty;
  Append("one");
  const Snapshot snapshot{end_, {FileOf(large), FileOf("small"), FileOf(empty)}, "names and time"};
  EXPECT_EQ(Missing(snapshot.files), (std::vector<SnapshotFile>{FileOf(large), FileOf("small")}));
  Upload(large);
  Upload("small");
  EXPECT_EQ(Missing(snapshot.files), std::vector<SnapshotFile>{});
  ASSERT_TRUE(rig_->PutSnapshot(1, snapshot).ok());
  const std::vector<Snapshot> listed = rig_->Snapshots(2);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].position, snapshot.position);
  EXPECT_EQ(listed[0].files, snapshot.files);
  EXPECT_EQ(listed[0].details, snapshot.details);
  std::string read;
  for (uint32_t i = 0; i < SnapshotParts(large.size()); ++i)
    read += rig_->ReadPart(2, FileOf(large), i).value();
  EXPECT_EQ(read, large);
  EXPECT_EQ(rig_->ReadPart(2, FileOf(large), 3).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(LogSnapshots, TornSnapshotIsNotListed) {
  Append("one");
  const std::string large(kSnapshotPartBytes + 1, 'x');
  const Snapshot snapshot{end_, {FileOf(large)}, ""};
  EXPECT_EQ(rig_->PutSnapshot(1, snapshot).code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(rig_->PutPart(1, PartsOf(large)[1]).ok());
  EXPECT_EQ(rig_->PutSnapshot(1, snapshot).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(rig_->Snapshots(2).empty());
  ASSERT_TRUE(rig_->PutPart(1, PartsOf(large)[0]).ok());
  EXPECT_TRUE(rig_->PutSnapshot(1, snapshot).ok());
  EXPECT_EQ(rig_->Snapshots(2).size(), 1u);
  EXPECT_TRUE(rig_->PutSnapshot(1, snapshot).ok());  // again, after an unknown result
}

TEST_P(LogSnapshots, SnapshotOfAnotherHistoryIsRefused) {
  Append("one");
  Upload("state");
  for (const LogPosition& wrong :
       {LogPosition{end_.seq, end_.chain + 1}, NextPosition(end_, led_.term.epoch, "lost")}) {
    EXPECT_EQ(rig_->PutSnapshot(1, {wrong, {FileOf("state")}, ""}).code(),
              absl::StatusCode::kAborted);
  }
  EXPECT_TRUE(rig_->Snapshots(2).empty());
}

TEST_P(LogSnapshots, TrimKeepsWhatKeptSnapshotsNeed) {
  std::vector<LogPosition> ends;
  std::vector<Snapshot> snapshots;
  for (int i = 0; i < 4; ++i) {
    ends.push_back(Append(absl::StrCat("row ", i)));
    snapshots.push_back(Take());
  }
  Append("last");
  TrimAll(2);
  const std::vector<Snapshot> listed = rig_->Snapshots(2);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].position, ends[3]);
  EXPECT_EQ(listed[1].position, ends[2]);
  // A fresh replica begins with either of them.
  for (const Snapshot& snapshot : listed) {
    EXPECT_TRUE(rig_->ReadPart(2, snapshot.files[0], 0).ok());
    const auto read = rig_->Read(2, {.after = snapshot.position});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read->rows.back().data, "last");
  }
  // The others are gone.
  EXPECT_EQ(rig_->ReadPart(2, snapshots[1].files[0], 0).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(rig_->Read(2, {.after = ends[1]}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(rig_->Read(2, {.after = led_.first}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(rig_->PutSnapshot(1, snapshots[0]).code(), absl::StatusCode::kAborted);
  Append("after the trim");
}

TEST_P(LogSnapshots, TrimWithoutSnapshotRemovesNoRow) {
  Append("one");
  Append("two");
  Upload("unfinished");
  const auto trimmed = rig_->Trim(0, 1);
  ASSERT_TRUE(trimmed.ok()) << trimmed.status();
  EXPECT_EQ(trimmed->rows, 0u);
  EXPECT_EQ(trimmed->files, 1u);
  EXPECT_EQ(rig_->Read(1, {.after = led_.first})->rows.size(), 2u);
  EXPECT_EQ(Missing({FileOf("unfinished")}).size(), 1u);
}

TEST_P(LogSnapshots, TrimToTheLastRowKeepsIt) {
  Append("one");
  const Snapshot snapshot = Take();
  TrimAll(1);
  EXPECT_EQ(rig_->State(1).last, snapshot.position);
  EXPECT_EQ(rig_->State(1).first, led_.first);
  Append("two");
  EXPECT_EQ(rig_->Read(1, {.after = snapshot.position})->rows.size(), 1u);
  // A new leader finds the end as well.
  EXPECT_EQ(rig_->Lead(1, "b").last, end_);
}

TEST_P(LogSnapshots, SharedFileStaysUntilNoSnapshotHasIt) {
  const std::vector<SnapshotFile> shared = {FileOf("shared")};
  Append("one");
  Upload("shared");
  ASSERT_TRUE(rig_->PutSnapshot(1, {end_, shared, "first"}).ok());
  Append("two");
  ASSERT_TRUE(rig_->PutSnapshot(1, {end_, shared, "second"}).ok());
  TrimAll(1);
  EXPECT_TRUE(rig_->ReadPart(2, shared[0], 0).ok());
  Append("three");
  Take();
  TrimAll(1);
  EXPECT_EQ(rig_->ReadPart(2, shared[0], 0).status().code(), absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Logs, LogSnapshots,
                         testing::Values(RigKind{"Memory", &MakeMemRig},
                                         RigKind{"Postgres", &MakePgRig},
                                         RigKind{"PostgresAndS3", &MakeS3Rig}),
                         [](const auto& rig) { return rig.param.name; });

}  // namespace log_snapshot_test
}  // namespace escapement::kv
