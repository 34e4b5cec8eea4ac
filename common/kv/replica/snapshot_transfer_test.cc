#include "common/kv/replica/snapshot_transfer.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/kv/replica/testing/threaded_log.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace snapshot_transfer_test {

class SnapshotTransfer : public testing::Test {
 protected:
  SnapshotTransfer() {
    // A log with one row, whose place the snapshots have.
    LeadRequest lead;
    lead.owner = "me";
    const LeadResult led =
        engine_.With([&](MemLogState& log) { return log.Lead(lead, 77); }).value();
    const LogRow row = NextRow(led.last, led.term.epoch, std::make_shared<const std::string>("\2"));
    engine_.With([&](MemLogState& log) { return log.Append({led.term, led.last, {row}}); });
    place_ = PlaceBehind({led.first, 0, RecordKind::kLeader, 0}, row).value();
    folder_ = NewFolder();
  }
  static std::string NewFolder() {
    const char* base = getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(base != nullptr ? base : "/tmp", "/snapshot-XXXXXX");
    return mkdtemp(path.data());
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder_, "/", name), std::ios::binary) << text;
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  Snapshot Newest() {
    return engine_.With([](MemLogState& log) { return log.ListSnapshots().at(0); });
  }

  SystemRuntime runtime_;
  ThreadedLogEngine engine_;
  ThreadedLog shared_{runtime_, engine_};
  BlockingLog log_{shared_};
  FileHashes hashes_;
  LogPlace place_;
  std::string folder_;
  const absl::Time time_ = absl::FromUnixSeconds(1'700'000'000);
};

TEST_F(SnapshotTransfer, FolderComesBackAsItWas) {
  const std::string large(5'500'000, 'x');
  Write("000001.sst", large);
  Write("000002.sst", "small");
  Write("MANIFEST", "small");  // the same bytes travel once
  Write("000003.log", "");
  Write("LOCK", "");
  const UploadResult sent = UploadSnapshot(log_, folder_, place_, time_, hashes_).value();
  EXPECT_EQ(sent.bytes, large.size() + 10);
  EXPECT_EQ(sent.bytes_sent, large.size() + 5);
  const SnapshotDetails details = DecodeSnapshotDetails(Newest().details).value();
  LogPlace place = place_;
  place.before = {};  // is not in the details
  EXPECT_EQ(details.place, place);
  EXPECT_EQ(details.store_time, time_);

  const std::string back = NewFolder();
  ASSERT_TRUE(DownloadSnapshot(log_, Newest(), back).ok());
  EXPECT_EQ(Read(back + "/000001.sst"), large);
  EXPECT_EQ(Read(back + "/000002.sst"), "small");
  EXPECT_EQ(Read(back + "/MANIFEST"), "small");
  EXPECT_TRUE(std::filesystem::exists(back + "/000003.log"));
  EXPECT_FALSE(std::filesystem::exists(back + "/LOCK"));
}

TEST_F(SnapshotTransfer, OnlyNewFilesTravel) {
  Write("1.sst", "first");
  ASSERT_TRUE(UploadSnapshot(log_, folder_, place_, time_, hashes_).ok());
  Write("2.sst", "second");
  const UploadResult sent = UploadSnapshot(log_, folder_, place_, time_, hashes_).value();
  EXPECT_EQ(sent.bytes, 11u);
  EXPECT_EQ(sent.bytes_sent, 6u);
}

TEST_F(SnapshotTransfer, DamagedOrMissingFileIsNoticed) {
  Write("1.sst", "first");
  ASSERT_TRUE(UploadSnapshot(log_, folder_, place_, time_, hashes_).ok());
  Snapshot snapshot = Newest();
  shared_.Damage(snapshot.files[0]);
  EXPECT_TRUE(absl::IsDataLoss(DownloadSnapshot(log_, snapshot, NewFolder())));
  snapshot.files[0].hash = std::string(kSnapshotHashBytes, 'h');
  EXPECT_TRUE(absl::IsNotFound(DownloadSnapshot(log_, snapshot, NewFolder())));
}

TEST_F(SnapshotTransfer, PlaceOfAnotherHistoryIsNotPublished) {
  Write("1.sst", "first");
  LogPlace other = place_;
  other.position.chain ^= 1;
  EXPECT_TRUE(absl::IsAborted(UploadSnapshot(log_, folder_, other, time_, hashes_).status()));
}

TEST_F(SnapshotTransfer, NamesOfOtherFoldersAreRefused) {
  for (const char* name : {"", ".", "..", "../x", "a/b", ".hidden"}) {
    SnapshotDetails details;
    details.place = place_;
    details.store_time = time_;
    details.files.push_back({name, 0});
    EXPECT_TRUE(absl::IsDataLoss(DecodeSnapshotDetails(EncodeSnapshotDetails(details)).status()))
        << name;
  }
}

TEST_F(SnapshotTransfer, CancelEndsAWait) {
  shared_.Hold();
  log_.Cancel();
  EXPECT_TRUE(absl::IsCancelled(TrimLog(log_)));
}

}  // namespace snapshot_transfer_test
}  // namespace escapement::kv
