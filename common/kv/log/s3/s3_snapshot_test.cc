#include "common/kv/log/s3/s3_snapshot.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace escapement::kv {
namespace s3_snapshot_test {

S3Snapshot Example() {
  return {"s3://bucket/prefix/default/0123456789abcdef",
          {{{std::string(32, 'a'), 5}, 0x1234}, {{std::string(32, 'b'), 0}, 0}},
          {7, 8},
          "details"};
}

TEST(S3SnapshotTest, RecordIsReadBack) {
  const S3Snapshot snapshot = Example();
  const Snapshot stored = EncodeS3Snapshot(snapshot);
  ASSERT_EQ(stored.files.size(), 1u) << "an empty file has no mark";
  std::string name;
  for (int i = 0; i < 32; ++i) name += "61";  // 'a'
  EXPECT_EQ(S3ObjectName(std::string(32, 'a'), 0x1234), name + "-0000000000001234");
  const SnapshotPart mark = MarkOf(snapshot.folder, name + "-0000000000001234");
  EXPECT_EQ(stored.files[0], mark.file);
  EXPECT_EQ(mark.data.size(), mark.file.bytes);
  const auto read = DecodeS3Snapshot(stored);
  ASSERT_TRUE(read.ok() && read->has_value()) << read.status();
  EXPECT_EQ((*read)->folder, snapshot.folder);
  EXPECT_EQ((*read)->position, snapshot.position);
  EXPECT_EQ((*read)->files[0].upload, 0x1234u);
  const Snapshot seen = SnapshotOf(**read);
  EXPECT_EQ(seen.details, "details");
  EXPECT_EQ(seen.files,
            (std::vector<SnapshotFile>{{std::string(32, 'a'), 5}, {std::string(32, 'b'), 0}}));
}

// The form is stored.
TEST(S3SnapshotTest, FormStaysAsItIs) {
  const std::string details = EncodeS3Snapshot(Example()).details;
  EXPECT_EQ(details, std::string("\002files in S3\001\0\x2b", 15) + Example().folder +
                         std::string("\0\0\0\2", 4) + std::string(32, 'a') +
                         std::string("\0\0\0\0\0\0\0\5\0\0\0\0\0\0\x12\x34", 16) +
                         std::string(32, 'b') + std::string(16, '\0') + "details");
}

TEST(S3SnapshotTest, OtherSnapshotsAreNotTouched) {
  for (const char* details : {"", "\001details", "\002", "\002files in S3"}) {
    const auto read = DecodeS3Snapshot({{1, 2}, {}, details});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_FALSE(read->has_value());
  }
}

TEST(S3SnapshotTest, MalformedRecordIsDataLoss) {
  Snapshot stored = EncodeS3Snapshot(Example());
  const size_t whole = stored.details.size() - std::string("details").size();
  for (size_t bytes = kS3SnapshotTag.size(); bytes < whole; ++bytes) {
    Snapshot cut = stored;
    cut.details.resize(bytes);
    EXPECT_TRUE(absl::IsDataLoss(DecodeS3Snapshot(cut).status())) << bytes;
  }
}

}  // namespace s3_snapshot_test
}  // namespace escapement::kv
