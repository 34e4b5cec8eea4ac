#include "common/kv/log/snapshot_codec.h"

#include <string>

#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace snapshot_codec_test {

Snapshot Example() {
  return {{7, 9},
          {{std::string(kSnapshotHashBytes, 'a'), 3}, {std::string(kSnapshotHashBytes, 'b'), 1}},
          "details"};
}

TEST(SnapshotCodec, SnapshotComesBack) {
  for (const Snapshot& snapshot : {Example(), Snapshot{{1, 2}, {}, ""}}) {
    const auto decoded = DecodeSnapshot(snapshot.position, EncodeSnapshot(snapshot));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->position, snapshot.position);
    EXPECT_EQ(decoded->files, snapshot.files);
    EXPECT_EQ(decoded->details, snapshot.details);
  }
}

TEST(SnapshotCodec, EveryDamagedByteIsNoticed) {
  const std::string good = EncodeSnapshot(Example());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    EXPECT_EQ(DecodeSnapshot({}, bad).status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_EQ(DecodeSnapshot({}, good.substr(0, i)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(SnapshotCodec, AnotherVersionIsRefused) {
  std::string bytes = EncodeSnapshot(Example());
  bytes[0] = 2;
  bytes.resize(bytes.size() - sizeof(uint64_t));
  AppendBigEndian<uint64_t>(&bytes, StableHash64(bytes));
  EXPECT_EQ(DecodeSnapshot({}, bytes).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SnapshotCodec, PartsCheckFollowsFromAllOfIt) {
  const SnapshotPart part{{std::string(kSnapshotHashBytes, 'a'), 3}, 0, "abc"};
  SnapshotPart other = part;
  other.data = "abd";
  EXPECT_NE(SnapshotPartCheck(other), SnapshotPartCheck(part));
  other = part;
  other.index = 1;
  EXPECT_NE(SnapshotPartCheck(other), SnapshotPartCheck(part));
  other = part;
  other.file.hash[0] = 'b';
  EXPECT_NE(SnapshotPartCheck(other), SnapshotPartCheck(part));
}

}  // namespace snapshot_codec_test
}  // namespace escapement::kv
