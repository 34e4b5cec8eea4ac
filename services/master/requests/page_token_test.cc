#include <string>

#include "absl/status/status.h"
#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {
namespace page_token_test {

constexpr char kList[] = "ListSchedules default";

void ExpectRefused(const std::string& list, const std::string& token) {
  const auto position = DecodePageToken(list, token);
  ASSERT_TRUE(absl::IsInvalidArgument(position.status())) << token;
  EXPECT_EQ(FieldViolationsOf(position.status())[0].first, "page_token");
}

TEST(PageToken, GivesItsPositionBackToItsOwnListOnly) {
  for (const std::string& position : {std::string("a"), std::string("\0\xff\x01", 3)}) {
    const std::string token = EncodePageToken(kList, position);
    EXPECT_EQ(*DecodePageToken(kList, token), position);
    ExpectRefused("ListSchedules other", token);
  }
  EXPECT_EQ(*DecodePageToken(kList, ""), "");
}

TEST(PageToken, ATokenCutOrLengthenedByAnyCharacterIsRefused) {
  // base64 rounds each of these three lengths differently.
  for (const std::string position : {"nightly", "nightly1", "nightly12"}) {
    const std::string token = EncodePageToken(kList, position);
    for (size_t length = 1; length < token.size(); ++length)
      ExpectRefused(kList, token.substr(0, length));
    for (const char more : std::string("A_-9= \n.")) {
      ExpectRefused(kList, token + more);
      ExpectRefused(kList, more + token);
    }
    ExpectRefused(kList, token + "==");
  }
}

TEST(PageToken, ATokenWithAnyCharacterReplacedIsRefused) {
  const std::string token = EncodePageToken(kList, "nightly1");
  for (size_t i = 0; i < token.size(); ++i) {
    for (const char other : std::string("ABCDQgwx_-09=+/ ")) {
      std::string changed = token;
      changed[i] = other;
      if (changed != token) ExpectRefused(kList, changed);
    }
  }
}

// The bounds of a position and of the list's name are part of the check.
TEST(PageToken, APositionThatContinuesTheListsNameIsAnotherToken) {
  ExpectRefused("ListRuns a", EncodePageToken("ListRuns ", "a1"));
  EXPECT_NE(EncodePageToken("ListRuns a", "1"), EncodePageToken("ListRuns ", "a1"));
}

}  // namespace page_token_test
}  // namespace escapement::master
