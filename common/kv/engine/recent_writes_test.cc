#include <map>
#include <random>
#include <string>

#include "common/kv/engine/overlay.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace recent_writes_test {

constexpr ColumnFamily kCf = ColumnFamily::kStates;

TEST(RecentWritesTest, EverythingBeforeTheStartCountsAsChanged) {
  RecentWrites recent(4, 100);
  EXPECT_FALSE(recent.UnchangedSince(kCf, "k", 99));
  EXPECT_TRUE(recent.UnchangedSince(kCf, "k", 100));
  recent.Forget(105);
  EXPECT_FALSE(recent.UnchangedSince(kCf, "k", 104));
  EXPECT_TRUE(recent.UnchangedSince(kCf, "k", 105));
}

TEST(RecentWritesTest, FamiliesDoNotShareSlots) {
  RecentWrites recent(0, 0);  // one slot: every key of a family collides
  recent.Touch(kCf, "a", 5);
  EXPECT_FALSE(recent.UnchangedSince(kCf, "b", 4));
  EXPECT_TRUE(recent.UnchangedSince(kCf, "b", 5));
  EXPECT_TRUE(recent.UnchangedSince(ColumnFamily::kEvents, "a", 0));
}

TEST(RecentWritesTest, RangeTouchesTheKeysItCovers) {
  RecentWrites recent(10, 0);
  recent.TouchRange(kCf, "b", "d", 7);
  EXPECT_FALSE(recent.UnchangedSince(kCf, "c", 6));
  EXPECT_TRUE(recent.UnchangedSince(kCf, "c", 7));
  EXPECT_TRUE(recent.UnchangedSince(kCf, "d", 6));
  // If there are many ranges, the oldest are forgotten: then nothing before them is known to be
  // unchanged.
  for (CommitSeq seq = 8; seq < 100; ++seq) recent.TouchRange(kCf, "x", "y", seq);
  EXPECT_FALSE(recent.UnchangedSince(kCf, "c", 6));
  EXPECT_FALSE(recent.UnchangedSince(kCf, "q", 20));
  EXPECT_TRUE(recent.UnchangedSince(kCf, "q", 60));
}

TEST(RecentWritesTest, ChangedKeyIsNeverUnchanged) {
  std::mt19937_64 random(3);
  RecentWrites recent(6, 0);
  std::map<std::string, CommitSeq> last;
  int unchanged = 0;
  for (CommitSeq seq = 1; seq < 5000; ++seq) {
    const std::string key = std::to_string(random() % 300);
    recent.Touch(kCf, key, seq);
    last[key] = seq;
    const std::string asked = std::to_string(random() % 300);
    const CommitSeq since = random() % (seq + 1);
    if (!recent.UnchangedSince(kCf, asked, since)) continue;
    ++unchanged;
    ASSERT_LE(last[asked], since);
  }
  EXPECT_GT(unchanged, 30);
}

}  // namespace recent_writes_test
}  // namespace escapement::kv
