#include <string>

#include "gtest/gtest.h"
#include "services/handler/delivery/email/smtp_exchange.h"

namespace escapement::handler {
namespace smtp_reply_test {

TEST(SmtpReplyTest, ReadsRepliesByteByByte) {
  SmtpReplyReader reader;
  std::string seen;
  for (const char c : std::string("250-first\r\n250 last\r\n354\r\n550 5.1.1 no\n")) {
    reader.Add({&c, 1});
    const auto reply = reader.Next();
    ASSERT_TRUE(reply.ok());
    if (reply->has_value()) seen += std::to_string((*reply)->code) + "[" + (*reply)->text + "]";
  }
  EXPECT_EQ(seen, "250[first\nlast]354[]550[5.1.1 no]");
}

TEST(SmtpReplyTest, ReadsRepliesThatCameTogether) {
  SmtpReplyReader reader;
  reader.Add("250 a\r\n251 b\r\n45");
  EXPECT_EQ((*reader.Next())->code, 250);
  EXPECT_EQ((*reader.Next())->code, 251);
  EXPECT_FALSE(reader.Next()->has_value());
  reader.Add("1 c\r\n");
  EXPECT_EQ((*reader.Next())->code, 451);
}

TEST(SmtpReplyTest, OtherProtocolsAreAnError) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 200 OK\r\n"), std::string("25\r\n"), std::string("999 x\r\n"),
        std::string("250x\r\n"), std::string("\r\n"), std::string("250-a\r\n251 b\r\n"),
        std::string(10'000, '2')}) {
    SmtpReplyReader reader;
    reader.Add(bytes);
    EXPECT_FALSE(reader.Next().ok()) << bytes.substr(0, 20);
  }
}

TEST(SmtpReplyTest, EndlessReplyIsAnError) {
  SmtpReplyReader reader;
  for (int i = 0; i < 1'000; ++i) {
    reader.Add("250-more\r\n");
    if (!reader.Next().ok()) return;
  }
  FAIL() << "1,000 lines were taken";
}

TEST(SmtpReplyTest, TextsForMessages) {
  EXPECT_EQ(SmtpReplyText({.code = 550, .text = "5.1.1 no\n\x1b[31msuch user"}),
            "SMTP 550: 5.1.1 no  [31msuch user");
  EXPECT_LE(SmtpReplyText({.code = 550, .text = std::string(5'000, 'x')}).size(), 500u);
  EXPECT_EQ(SmtpReplyCodes({.code = 535, .text = "5.7.8 Bad hunter2"}), "SMTP 535 5.7.8");
  for (const char* text : {"hunter2", "5.hunter2", "5.7.8hunter2", "5.7.", "5.1234.8 x", ""})
    EXPECT_EQ(SmtpReplyCodes({.code = 535, .text = text}), "SMTP 535") << text;
}

}  // namespace smtp_reply_test
}  // namespace escapement::handler
