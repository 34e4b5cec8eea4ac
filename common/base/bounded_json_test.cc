#include "common/base/bounded_json.h"

#include <string>

#include "gtest/gtest.h"

namespace escapement {
namespace bounded_json_test {

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(BoundedJson, TakesWhatIsNestedAsDeepAsAllowed) {
  EXPECT_TRUE(ParseBoundedJson(Nested(kJsonDepthMax)).is_array());
  EXPECT_TRUE(ParseBoundedJson(Nested(kJsonDepthMax + 1)).is_discarded());
  EXPECT_TRUE(ParseBoundedJson(Nested(100'000)).is_discarded());
  EXPECT_TRUE(ParseBoundedJson(std::string(1'000'000, '[')).is_discarded());
}

TEST(BoundedJson, BracketsInTextAreNoDepth) {
  EXPECT_TRUE(ParseBoundedJson("\"" + std::string(1000, '[') + "\"").is_string());
  EXPECT_TRUE(ParseBoundedJson(R"(["\"[[[", "\\"])", 1).is_array());
  EXPECT_TRUE(ParseBoundedJson(R"(["\\", [1]])", 1).is_discarded());
}

TEST(BoundedJson, RefusesWhatIsNoJson) {
  EXPECT_TRUE(ParseBoundedJson("").is_discarded());
  EXPECT_TRUE(ParseBoundedJson("{]").is_discarded());
}

}  // namespace bounded_json_test
}  // namespace escapement
