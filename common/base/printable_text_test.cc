#include "common/base/printable_text.h"

#include "gtest/gtest.h"

namespace escapement {
namespace printable_text_test {

constexpr char kReplaced[] = "?";

struct Case {
  std::string text;
  std::string clean;
  std::string escaped;
};

TEST(PrintableText, HostileCharactersAreReplacedAndEscaped) {
  const Case cases[] = {
      {"\x1b[31mred\x1b]0;title\x07", " [31mred ]0;title ", "\\x1b[31mred\\x1b]0;title\\x07"},
      {"a\r\nb\tc", "a  b c", "a\\x0d\\nb\\tc"},
      {"\x7f", " ", "\\x7f"},
      {"\xc2\x9b"
       "2J",
       " 2J", "\\x9b2J"},  // C1: CSI
      {"\xe2\x80\xae"
       "abc",
       std::string(kReplaced) + "abc",
       "\\u202e"
       "abc"},  // right to left
      {"\xe2\x81\xa9", kReplaced, "\\u2069"},
      {"\xff\xc3", std::string(kReplaced) + kReplaced, "\\xff\\xc3"},
      {"\xed\xa0\x80", std::string(kReplaced) + kReplaced + kReplaced, "\\xed\\xa0\\x80"},
      {"\xc0\x9b", std::string(kReplaced) + kReplaced, "\\xc0\\x9b"},  // overlong ESC
      {std::string("a\0b", 3), "a b", "a\\x00b"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(CleanText(c.text, 1000), c.clean) << c.escaped;
    EXPECT_EQ(EscapeForTerminal(c.text), c.escaped);
    EXPECT_TRUE(HasControlCharacters(c.text)) << c.escaped;
  }
}

TEST(PrintableText, OrdinaryTextStaysAsItIs) {
  for (const char* text : {"", "plain ~ text", "Zürich – 東京 🚀", "C:\\x1b"}) {
    EXPECT_EQ(CleanText(text, 1000), text);
    EXPECT_EQ(EscapeForTerminal(text), text);
    EXPECT_FALSE(HasControlCharacters(text)) << text;
  }
}

TEST(PrintableText, CutTextEndsWithAWholeCharacter) {
  EXPECT_EQ(CleanText("abc", 2), "ab");
  EXPECT_EQ(CleanText("a東京", 4), "a東");
  EXPECT_EQ(CleanText("a東京", 3), "a");
  EXPECT_EQ(CleanText("\xff\xff\xff", 2), "??");
}

TEST(PrintableText, DocumentsKeepTheirLinesAndEscapeTheRest) {
  EXPECT_EQ(EscapeInsideQuotes("{\n  \"a\": \"\xc2\x9b\x7f\xe2\x80\xae東\"\n}\n"),
            "{\n  \"a\": \"\\u009b\\u007f\\u202e東\"\n}\n");
}

TEST(PrintableText, BytesOfNoCharacterAreReplaced) {
  EXPECT_EQ(EscapeInsideQuotes("a\xff z"), "a? z");
  EXPECT_EQ(CleanText("a\xff z\x80", 10), "a? z?");
  EXPECT_EQ(CleanText("\xe2\x82", 10), "??");
  EXPECT_EQ(CleanText("\xc3(", 10), "?(");
  EXPECT_EQ(CleanText("\xe0\x80\xaf", 10), "???") << "overlong";
  EXPECT_EQ(CleanText("\xf4\x90\x80\x80", 10), "????") << "beyond U+10FFFF";
}

}  // namespace printable_text_test
}  // namespace escapement
