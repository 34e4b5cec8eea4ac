#include <string>

#include "common/auth/jwks.h"
#include "gtest/gtest.h"

namespace escapement::auth {
namespace jose_text_test {

TEST(JoseText, DecodesOnlyTheOneFormOfBase64Url) {
  EXPECT_EQ(*DecodeBase64Url("_-8"), "\xff\xef");
  EXPECT_EQ(*DecodeBase64Url(""), "");
  for (const char* text : {"_-8=", "/+8", "_-9", "_-8\n", " _-8", "_", "_-8=="})
    EXPECT_FALSE(DecodeBase64Url(text).has_value()) << text;
}

TEST(JoseText, ReadsAnObject) {
  const auto object = ParseJoseObject(R"({"a":"x","b":{"a":[1]}})");
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(*TextIn(*object, "a"), "x");
  EXPECT_EQ(TextIn(*object, "b"), nullptr);
  EXPECT_EQ(TextIn(*object, "c"), nullptr);
}

TEST(JoseText, RefusesOtherTexts) {
  for (const char* text : {"", "[]", "1", "{", "{} {}", "{\"a\":\"\xff\"}", "{\"a\":NaN}",
                           "\xef\xbb\xbf{}", "{/**/}", "{\"a\":1e999}"})
    EXPECT_FALSE(ParseJoseObject(text).has_value()) << text;
}

TEST(JoseText, RefusesAnObjectThatHasANameTwice) {
  EXPECT_FALSE(ParseJoseObject(R"({"sub":"a","sub":"b"})").has_value());
  EXPECT_FALSE(ParseJoseObject(R"({"a":[{"b":1,"\u0062":2}]})").has_value());
  EXPECT_TRUE(ParseJoseObject(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})").has_value());
}

TEST(JoseText, LimitsTheDepth) {
  const auto nested = [](size_t depth) {
    return "{\"[{\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(ParseJoseObject(nested(kJoseDepthMax)).has_value());
  EXPECT_FALSE(ParseJoseObject(nested(kJoseDepthMax + 1)).has_value());
  EXPECT_FALSE(ParseJoseObject(std::string(1 << 20, '[')).has_value());
}

}  // namespace jose_text_test
}  // namespace escapement::auth
