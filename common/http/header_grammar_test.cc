#include "common/http/header_grammar.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace header_grammar_test {

using ::testing::ElementsAre;

// The status with which a head of these header lines is refused; 0: it is not.
int StatusOf(const std::string& lines, int version = 11, absl::string_view target = "/") {
  HttpHead head{.version = version, .target = target};
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    head.headers.push_back(field);
  }
  const auto fault = FindHeadFault(head);
  return fault.has_value() ? fault->status : 0;
}

TEST(HeaderGrammar, RequestHasOneHost) {
  EXPECT_EQ(StatusOf("Host: a"), 0);
  EXPECT_EQ(StatusOf("host: a:80"), 0);
  EXPECT_EQ(StatusOf("Host: [::1]:7411"), 0);
  EXPECT_EQ(StatusOf("Host:"), 0);
  EXPECT_EQ(StatusOf(""), 400);
  EXPECT_EQ(StatusOf("", 10), 0);
  EXPECT_EQ(StatusOf("Host: a\nHost: a"), 400);
  for (const char* host : {"a b", "a/b", "a@b", "a:b", "a:80:80", "[::1", "[g]", "a\\b", "<a>"})
    EXPECT_EQ(StatusOf(absl::StrCat("Host: ", host)), 400) << host;
}

// Ways to hide a second request in the first one's bytes.
TEST(HeaderGrammar, LengthOfTheBodyHasOneMeaning) {
  EXPECT_EQ(StatusOf("Host: a\nContent-Length: 5"), 0);
  EXPECT_EQ(StatusOf("Host: a\nTransfer-Encoding: chunked"), 0);
  EXPECT_EQ(StatusOf("Host: a\nTransfer-Encoding:  Chunked "), 0);
  for (const char* lines :
       {"Content-Length: 5\nContent-Length: 5", "Content-Length: 5\ncontent-length: 6",
        "Content-Length: 5, 5", "Content-Length: +5", "Content-Length: -1", "Content-Length: 0x5",
        "Content-Length:", "Content-Length: 5 5", "Content-Length: 5\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity\nContent-Length: 5"})
    EXPECT_EQ(StatusOf(absl::StrCat("Host: a\n", lines)), 400) << lines;
  for (const char* lines :
       {"Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;a=b",
        "Transfer-Encoding: identity", "Transfer-Encoding:", "Transfer-Encoding: chunke\td",
        "Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\ntransfer-encoding: x"})
    EXPECT_EQ(StatusOf(absl::StrCat("Host: a\n", lines)), 501) << lines;
  EXPECT_EQ(StatusOf("Transfer-Encoding: chunked", 10), 400);
}

TEST(HeaderGrammar, OtherExpectationsAndTargetsAreRefused) {
  EXPECT_EQ(StatusOf("Host: a\nExpect: 100-Continue"), 0);
  EXPECT_EQ(StatusOf("Host: a\nExpect: 200-ok"), 417);
  EXPECT_EQ(StatusOf("Host: a", 11, "*"), 0);
  EXPECT_EQ(StatusOf("Host: a", 11, "v1/x"), 400);
  EXPECT_EQ(StatusOf("Host: a", 11, "http://b/"), 400);
}

TEST(HeaderGrammar, NameOfSomebodyElseIsNoOwnHost) {
  for (const char* own : {"localhost", "LocalHost:7411", "127.0.0.1", "127.0.0.1:7411",
                          "[::1]:7411", "10.1.2.3", "ops.example:443"})
    EXPECT_TRUE(IsOwnHost(own, {"ops.example"})) << own;
  for (const char* other : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                            "xlocalhost", "1.2.3.4x", "", "ops.example.evil"})
    EXPECT_FALSE(IsOwnHost(other, {"ops.example"})) << other;
}

TEST(HeaderGrammar, ListsAreReadWithTheirQuotes) {
  EXPECT_THAT(ListElements(R"( "a,b" ,, W/"c",d)"), ElementsAre("\"a,b\"", "W/\"c\"", "d"));
  EXPECT_TRUE(ListElements(" , ").empty());
}

TEST(HeaderGrammar, WeightOfACodingDecides) {
  for (const char* accept : {"gzip", "GZIP", "br, gzip;q=0.1", "*", "gzip ; q=1.000", "br;q=0,*"})
    EXPECT_TRUE(AcceptsCoding(accept, "gzip")) << accept;
  for (const char* accept : {"", "br", "gzip;q=0", "gzip;q=0.0", "gzip; q=0.000", "*;q=0",
                             "*, gzip;q=0", "gzip;q=0, *", "gzip;q=x", "xgzip"})
    EXPECT_FALSE(AcceptsCoding(accept, "gzip")) << accept;
}

TEST(HeaderGrammar, EntityTagsAreComparedWhole) {
  EXPECT_TRUE(NamesEntityTag("\"a\", W/\"b\"", "\"b\""));
  EXPECT_TRUE(NamesEntityTag("\"b\"", "W/\"b\""));
  EXPECT_TRUE(NamesEntityTag("*", "\"b\""));
  EXPECT_TRUE(NamesEntityTag("\"x,b\"", "\"x,b\""));
  EXPECT_FALSE(NamesEntityTag("\"xb\"", "\"b\""));
  EXPECT_FALSE(NamesEntityTag("b", "\"b\""));
}

}  // namespace header_grammar_test
}  // namespace escapement
