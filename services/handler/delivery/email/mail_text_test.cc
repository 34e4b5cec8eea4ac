#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/email/mail_message.h"

namespace escapement::handler {
namespace mail_text_test {

std::string Header(absl::string_view text) {
  std::string out;
  AppendMailHeader("Subject", text, &out);
  return out;
}

std::string Body(absl::string_view text) {
  std::string out;
  AppendMailBody(text, &out);
  return out;
}

// The rules that hold for each output.
void ExpectSafe(const std::string& out) {
  ASSERT_TRUE(absl::EndsWith(out, "\r\n"));
  std::vector<std::string> lines = absl::StrSplit(out, "\r\n");
  lines.pop_back();
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 998u);
    EXPECT_FALSE(absl::StartsWith(line, "."));
    for (const char c : line) EXPECT_TRUE((c >= 0x20 && c < 0x7f) || c == '\t') << int{c};
  }
}

TEST(MailTextTest, PlainHeaderStaysAsItIs) {
  EXPECT_EQ(Header("  Report: 50% = done? "), "Subject: Report: 50% = done?\r\n");
  EXPECT_EQ(Header(""), "Subject: \r\n");
}

TEST(MailTextTest, HeaderThatIsNotAsciiBecomesEncodedWords) {
  EXPECT_EQ(Header("Grüße"), "Subject: =?utf-8?B?R3LDvMOfZQ==?=\r\n");
  // Text that looks encoded is encoded, or readers would decode it.
  EXPECT_EQ(Header("=?utf-8?Q?x?="), "Subject: =?utf-8?B?PT91dGYtOD9RP3g/PQ==?=\r\n");
}

TEST(MailTextTest, EncodedWordsAreShortAndEndWithACharacter) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += i % 3 == 0 ? "é" : i % 3 == 1 ? "漢" : "🎉";
  const std::string header = Header(text);
  ExpectSafe(header);
  std::string decoded;
  std::vector<std::string> lines = absl::StrSplit(header, "\r\n");
  lines.pop_back();
  ASSERT_GT(lines.size(), 5u);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 76u);
    const size_t begin = line.find("=?utf-8?B?") + 10;
    std::string part;
    ASSERT_TRUE(absl::Base64Unescape(line.substr(begin, line.size() - begin - 2), &part));
    // A part that begins or ends inside of a character would have a byte 10xxxxxx in front.
    EXPECT_NE(static_cast<unsigned char>(part[0]) & 0xc0, 0x80);
    decoded += part;
  }
  EXPECT_EQ(decoded, text);
}

TEST(MailTextTest, HeaderCannotBeginAnotherOne) {
  for (const std::string& hostile :
       {std::string("a\r\nBcc: eve@evil.test"), std::string("a\nBcc: eve@evil.test"),
        std::string("a\rBcc: eve@evil.test"), std::string("a\r\n\r\nbody"),
        std::string("a\0b\x7f", 4), std::string("é\r\nBcc: eve@evil.test"),
        std::string("a\xc2\x85"
                    "b"),
        std::string(2'000, '\n') + "x", std::string("\xff\xfe\r\n.\r\n")}) {
    const std::string header = Header(hostile);
    ExpectSafe(header);
    std::vector<std::string> lines = absl::StrSplit(header, "\r\n");
    lines.pop_back();
    for (size_t i = 1; i < lines.size(); ++i) EXPECT_TRUE(absl::StartsWith(lines[i], " =?"));
  }
}

TEST(MailTextTest, LongHeaderIsFolded) {
  const std::string header = Header(std::string(2'000, 'x'));
  ExpectSafe(header);
  for (const absl::string_view line : absl::StrSplit(header, "\r\n")) EXPECT_LE(line.size(), 76u);
}

TEST(MailTextTest, AsciiTextIsQuotedPrintable) {
  EXPECT_EQ(Body("a=b\nFrom here\nFine\n.\n..x\ntab\t\nend "),
            "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
            "a=3Db\r\n=46rom here\r\nFine\r\n=2E\r\n=2E.x\r\ntab=09\r\nend=20\r\n");
}

TEST(MailTextTest, AllKindsOfLineEndsBecomeCrLf) {
  EXPECT_EQ(Body("a\rb\r\nc\n\nd"),
            "Content-Transfer-Encoding: quoted-printable\r\n\r\na\r\nb\r\nc\r\n\r\nd\r\n");
}

TEST(MailTextTest, OtherTextIsBase64) {
  EXPECT_EQ(Body("漢字\n"), "Content-Transfer-Encoding: base64\r\n\r\n5ryi5a2XDQo=\r\n");
}

TEST(MailTextTest, LongLinesAreCutInBothEncodings) {
  for (const std::string& text :
       {std::string(10'000, '.'), std::string(10'000, '\0'), std::string(10'000, 'F') + " From .",
        std::string(5'000, ' ') + "x" + std::string(5'000, ' '), std::string(75, 'a') + "=",
        std::string(74, 'a') + ". From x"}) {
    const std::string body = Body(text);
    ExpectSafe(body);
    for (const absl::string_view line : absl::StrSplit(body, "\r\n"))
      EXPECT_LE(line.size(), 76u) << line;
  }
}

TEST(MailTextTest, AddressesAreChecked) {
  EXPECT_TRUE(IsMailAddress("ann@example.org"));
  EXPECT_TRUE(IsMailAddress("o'neil+tag@sub.example.org"));
  EXPECT_TRUE(IsMailAddress("jürgen@bücher.example"));
  for (const std::string& bad :
       {std::string(), std::string("ann"), std::string("@x"), std::string("ann@"),
        std::string("a@b@c"), std::string("a b@c"), std::string("a@b\r\nRCPT TO:<eve@evil.test>"),
        std::string("<a@b>"), std::string("a@b>"), std::string("a@b, c@d"), std::string("\"a\"@b"),
        std::string("a@b\0", 4), std::string("\xe9@b"), std::string("a@b\u009b"),
        std::string(250, 'a') + "@b.org"}) {
    EXPECT_FALSE(IsMailAddress(bad)) << bad;
  }
}

}  // namespace mail_text_test
}  // namespace escapement::handler
