#include "common/base/utf8.h"

#include "gtest/gtest.h"

namespace escapement {
namespace {

TEST(Utf8Test, ValidTextIsUnchanged) {
  EXPECT_EQ(Utf8Prefix("", 10), "");
  EXPECT_EQ(Utf8Prefix("plain, é, €, 𝄞", 100), "plain, é, €, 𝄞");
}

TEST(Utf8Test, NoCharacterIsCut) {
  EXPECT_EQ(Utf8Prefix("aé", 2), "a");
  EXPECT_EQ(Utf8Prefix("aé", 3), "aé");
  for (size_t bytes = 1; bytes < 5; ++bytes) EXPECT_EQ(Utf8Prefix("a𝄞", bytes), "a");
  EXPECT_EQ(Utf8Prefix("a𝄞", 5), "a𝄞");
}

TEST(Utf8Test, BytesOfNoCharacterAreReplaced) {
  EXPECT_EQ(Utf8Prefix("a\xff z\x80", 10), "a? z?");
  EXPECT_EQ(Utf8Prefix("\xc3", 10), "?");
  EXPECT_EQ(Utf8Prefix("\xe2\x82", 10), "??");
  EXPECT_EQ(Utf8Prefix("\xc3(", 10), "?(");
  EXPECT_EQ(Utf8Prefix("\xc0\xaf", 10), "??") << "overlong";
  EXPECT_EQ(Utf8Prefix("\xe0\x80\xaf", 10), "???") << "overlong";
  EXPECT_EQ(Utf8Prefix("\xed\xa0\x80", 10), "???") << "a surrogate";
  EXPECT_EQ(Utf8Prefix("\xf4\x90\x80\x80", 10), "????") << "beyond U+10FFFF";
}

}  // namespace
}  // namespace escapement
