#include "common/kv/log/log_position.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace escapement::kv {
namespace log_position_test {

std::shared_ptr<const std::string> Bytes(const char* text) {
  return std::make_shared<const std::string>(text);
}

// The chain is stored: a change of its definition would make every log unreadable.
TEST(LogPosition, ChainIsWhatItWasInTheFirstVersion) {
  EXPECT_EQ(NextPosition({0, 1}, 1, ""), (LogPosition{1, 0x32e24ea3c59a66ee}));
  EXPECT_EQ(NextPosition({41, 0x0123456789abcdef}, 7, "record"),
            (LogPosition{42, 0x2db8a9a9fbd58e4f}));
}

TEST(LogPosition, ChainFollowsFromEveryPartOfTheRow) {
  const LogPosition after{41, 5};
  const LogPosition next = NextPosition(after, 7, "record");
  EXPECT_EQ(NextPosition(after, 7, "record"), next);
  EXPECT_NE(NextPosition({41, 6}, 7, "record").chain, next.chain);
  EXPECT_NE(NextPosition({40, 5}, 7, "record").chain, next.chain);
  EXPECT_NE(NextPosition(after, 8, "record").chain, next.chain);
  EXPECT_NE(NextPosition(after, 7, "Record").chain, next.chain);
}

TEST(LogPosition, RowsFollowOnlyInOrderAndUnchanged) {
  const LogPosition begin{3, 9};
  const LogRow a = NextRow(begin, 1, Bytes("a"));
  const LogRow b = NextRow(a.position, 2, Bytes("b"));
  EXPECT_TRUE(FollowsOn(begin, {}));
  EXPECT_TRUE(FollowsOn(begin, {a, b}));
  EXPECT_FALSE(FollowsOn(begin, {b, a}));
  EXPECT_FALSE(FollowsOn(begin, {b}));
  EXPECT_FALSE(FollowsOn({3, 8}, {a, b}));
  LogRow damaged = b;
  damaged.data = Bytes("B");
  EXPECT_FALSE(FollowsOn(begin, {a, damaged}));
  LogRow other_epoch = b;
  other_epoch.epoch = 3;
  EXPECT_FALSE(FollowsOn(begin, {a, other_epoch}));
}

}  // namespace log_position_test
}  // namespace escapement::kv
