#include "services/handler/delivery/email/smtp_exchange.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/smtp/email_attempts.h"

namespace escapement::handler {
namespace smtp_exchange_test {

using fixtures::EmailTarget;
using ::testing::HasSubstr;
using ::testing::Not;

// A dialogue: all that the exchange writes is taken at once.
class Dialogue {
 public:
  explicit Dialogue(bool pipelining, int receivers = 2, bool reset = false)
      : target_(TargetWith(receivers)),
        exchange_(target_, "Subject: x\r\n\r\nhello\r\n", {.pipelining = pipelining, .size = false},
                  reset) {}

  static storage::v1::EmailTargetRecord TargetWith(int receivers) {
    storage::v1::EmailTargetRecord target = EmailTarget("smtp://x");
    target.clear_to();
    for (int i = 0; i < receivers; ++i) target.add_to(absl::StrCat("r", i, "@x.org"));
    return target;
  }

  std::string Written() {
    const std::string written(exchange_.to_write());
    exchange_.Wrote(written.size());
    return written;
  }
  // Answers with these codes, one after another.
  void Answer(const std::vector<int>& codes) {
    for (const int code : codes) {
      all_ += Written();
      ASSERT_FALSE(exchange_.result().has_value());
      exchange_.OnReply({.code = code, .text = absl::StrCat("text", code)});
    }
    all_ += Written();
  }
  DeliveryResult result() const {
    return exchange_.result().value_or(
        DeliveryResult{.status = static_cast<DeliveryStatus>(255), .message = "no result"});
  }

  storage::v1::EmailTargetRecord target_;
  SmtpExchange exchange_;
  std::string all_;
};

constexpr char kCommands[] =
    "MAIL FROM:<jobs@example.com>\r\nRCPT TO:<r0@x.org>\r\nRCPT TO:<r1@x.org>\r\nDATA\r\n";
constexpr char kMessage[] = "Subject: x\r\n\r\nhello\r\n.\r\n";

class SmtpExchangeTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(BothWays, SmtpExchangeTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "Pipelined" : "OneByOne";
                         });

TEST(SmtpExchangeOrderTest, PipelinedCommandsGoOutTogether) {
  Dialogue dialogue(/*pipelining=*/true);
  EXPECT_EQ(dialogue.Written(), kCommands);
  dialogue.Answer({250, 250, 250});
  EXPECT_EQ(dialogue.all_, "");
  dialogue.exchange_.OnReply({.code = 354, .text = ""});
  EXPECT_EQ(dialogue.Written(), kMessage);
}

TEST(SmtpExchangeOrderTest, CommandsWaitForTheirReplies) {
  Dialogue dialogue(/*pipelining=*/false);
  EXPECT_EQ(dialogue.Written(), "MAIL FROM:<jobs@example.com>\r\n");
  EXPECT_EQ(dialogue.Written(), "");
  dialogue.exchange_.OnReply({.code = 250, .text = ""});
  EXPECT_EQ(dialogue.Written(), "RCPT TO:<r0@x.org>\r\n");
}

TEST_P(SmtpExchangeTest, AcceptedMessage) {
  Dialogue dialogue(GetParam());
  dialogue.Answer({250, 250, 251, 354});
  EXPECT_TRUE(dialogue.exchange_.may_have_arrived());
  dialogue.Answer({250});
  EXPECT_EQ(dialogue.all_, absl::StrCat(kCommands, kMessage));
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kAccepted);
  EXPECT_EQ(dialogue.result().message, "");
  EXPECT_TRUE(dialogue.exchange_.reusable());
  EXPECT_FALSE(dialogue.exchange_.needs_reset());
}

TEST(SmtpExchangeAddressTest, DomainsAreSentInAscii) {
  storage::v1::EmailTargetRecord target = EmailTarget("smtp://x");
  target.set_from("jobs@bücher.example");
  target.set_to(0, "ann@xn--bcher-kva.example");
  SmtpExchange exchange(target, "", {.pipelining = true}, /*reset=*/false);
  EXPECT_EQ(exchange.to_write(),
            "MAIL FROM:<jobs@xn--bcher-kva.example>\r\nRCPT TO:<ann@xn--bcher-kva.example>\r\n"
            "DATA\r\n");
}

TEST(SmtpExchangeAddressTest, LocalPartsThatAreNotAsciiNeedSmtputf8) {
  storage::v1::EmailTargetRecord target = EmailTarget("smtp://x");
  target.set_to(0, "jürgen@bücher.example");
  SmtpExchange offered(target, "", SmtpFeatures::Of({.code = 250, .text = "x\nSMTPUTF8"}), false);
  EXPECT_EQ(offered.to_write(), "MAIL FROM:<jobs@example.com> SMTPUTF8\r\n");
  SmtpExchange missing(target, "", {}, /*reset=*/true);
  EXPECT_EQ(missing.to_write(), "");
  ASSERT_TRUE(missing.result().has_value());
  EXPECT_EQ(missing.result()->status, DeliveryStatus::kFailed);
  EXPECT_THAT(missing.result()->message,
              HasSubstr("SMTPUTF8, which the address jürgen@xn--bcher-kva.example needs"));
  EXPECT_TRUE(missing.reusable());
  EXPECT_TRUE(missing.needs_reset());
}

TEST_P(SmtpExchangeTest, ResetComesFirst) {
  Dialogue dialogue(GetParam(), 2, /*reset=*/true);
  dialogue.Answer({250, 250, 250, 250, 354, 250});
  EXPECT_EQ(dialogue.all_, absl::StrCat("RSET\r\n", kCommands, kMessage));
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kAccepted);
}

TEST_P(SmtpExchangeTest, FinalReplyDecides) {
  const std::vector<std::pair<int, DeliveryStatus>> cases = {
      {250, DeliveryStatus::kAccepted}, {421, DeliveryStatus::kFailed},
      {451, DeliveryStatus::kFailed},   {452, DeliveryStatus::kFailed},
      {530, DeliveryStatus::kFailed},   {535, DeliveryStatus::kFailed},
      {550, DeliveryStatus::kRejected}, {552, DeliveryStatus::kRejected},
      {554, DeliveryStatus::kRejected}, {354, DeliveryStatus::kFailed}};
  for (const auto& [code, status] : cases) {
    Dialogue dialogue(GetParam());
    dialogue.Answer({250, 250, 250, 354, code});
    EXPECT_EQ(dialogue.result().status, status) << code;
    EXPECT_EQ(dialogue.exchange_.reusable(), code != 421 && code != 354) << code;
    EXPECT_FALSE(dialogue.exchange_.closed_early());
    if (status != DeliveryStatus::kAccepted) {
      EXPECT_THAT(dialogue.result().message, HasSubstr(absl::StrCat("SMTP ", code, ": text")));
    }
  }
}

TEST(SmtpExchangeOrderTest, RefusedEhloNameIsTriedAgainAndSaysWhatToChange) {
  for (const SmtpReply& reply :
       {SmtpReply{504, "5.5.2 <vm>: Helo command rejected: need fully-qualified hostname"},
        SmtpReply{550, "Access denied - Invalid HELO name (See RFC2821 4.1.1.1)"}}) {
    Dialogue dialogue(/*pipelining=*/false, 1);
    dialogue.Answer({250});
    dialogue.exchange_.OnReply(reply);
    EXPECT_EQ(dialogue.result().status, DeliveryStatus::kFailed) << reply.text;
    EXPECT_TRUE(absl::StrContains(dialogue.result().message, "set --email_ehlo_name"));
  }
}

TEST(SmtpExchangeOrderTest, RefusedSenderEndsTheExchange) {
  const std::vector<std::pair<int, DeliveryStatus>> cases = {{451, DeliveryStatus::kFailed},
                                                             {530, DeliveryStatus::kFailed},
                                                             {550, DeliveryStatus::kRejected},
                                                             {553, DeliveryStatus::kRejected}};
  for (const auto& [code, status] : cases) {
    Dialogue plain(/*pipelining=*/false);
    plain.Answer({code});
    EXPECT_EQ(plain.result().status, status);
    Dialogue pipelined(/*pipelining=*/true);
    pipelined.Answer({code, 503, 503, 503});
    EXPECT_EQ(pipelined.result().status, status);
    EXPECT_TRUE(pipelined.exchange_.reusable());
    EXPECT_THAT(pipelined.result().message,
                HasSubstr(absl::StrCat("jobs@example.com was refused: SMTP ", code)));
    EXPECT_THAT(pipelined.all_, Not(HasSubstr("hello")));
  }
}

TEST(SmtpExchangeOrderTest, MessageIsNotSentIfAllAreRefused) {
  Dialogue plain(/*pipelining=*/false);
  plain.Answer({250, 550, 551});
  EXPECT_EQ(plain.result().status, DeliveryStatus::kRejected);
  EXPECT_TRUE(plain.exchange_.reusable());
  EXPECT_TRUE(plain.exchange_.needs_reset());
  EXPECT_THAT(plain.all_, Not(HasSubstr("DATA")));

  Dialogue refused(/*pipelining=*/true);
  refused.Answer({250, 550, 551, 554});
  EXPECT_EQ(refused.result().status, DeliveryStatus::kRejected);
  EXPECT_TRUE(refused.exchange_.reusable());
  EXPECT_TRUE(refused.exchange_.needs_reset());

  // A server that waits for the message all the same gets none, and the connection ends.
  Dialogue waiting(/*pipelining=*/true);
  waiting.Answer({250, 550, 551, 354});
  EXPECT_EQ(waiting.result().status, DeliveryStatus::kRejected);
  EXPECT_FALSE(waiting.exchange_.reusable());
  EXPECT_THAT(waiting.all_, Not(HasSubstr("hello")));
}

TEST(SmtpExchangeOrderTest, OneTemporaryRefusalAmongAllFails) {
  Dialogue dialogue(/*pipelining=*/true, 3);
  dialogue.Answer({250, 550, 450, 452, 503});
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kFailed);
  EXPECT_THAT(dialogue.result().message, HasSubstr("r1@x.org was refused: SMTP 450"));
  EXPECT_EQ(dialogue.result().status_code, 450);
}

TEST_P(SmtpExchangeTest, SomeRefusedReceiversDoNotStopTheMessage) {
  Dialogue dialogue(GetParam(), 3);
  dialogue.Answer({250, 550, 250, 551, 354, 250});
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kAccepted);
  EXPECT_EQ(dialogue.result().status_code, 250);
  EXPECT_THAT(dialogue.result().answer, HasSubstr("2 of 3 receivers were refused"));
  EXPECT_THAT(dialogue.result().answer, HasSubstr("r0@x.org: SMTP 550"));
  EXPECT_THAT(dialogue.all_, HasSubstr("hello"));
}

TEST_P(SmtpExchangeTest, ServerThatClosesBeforeTheMessage) {
  Dialogue dialogue(GetParam());
  dialogue.Answer({421});
  EXPECT_TRUE(dialogue.exchange_.closed_early());
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kFailed);
  EXPECT_FALSE(dialogue.exchange_.reusable());
}

TEST_P(SmtpExchangeTest, RefusedDataDecides) {
  Dialogue dialogue(GetParam());
  dialogue.Answer({250, 250, 250, 554});
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kRejected);
}

// The reply comes before the whole message is written; the rest of it must not look like commands.
TEST(SmtpExchangeOrderTest, EarlyFinalReplyEndsTheConnection) {
  Dialogue dialogue(/*pipelining=*/true);
  dialogue.Answer({250, 250, 250});
  dialogue.exchange_.OnReply({.code = 354, .text = ""});
  dialogue.exchange_.Wrote(3);
  EXPECT_FALSE(dialogue.exchange_.may_have_arrived());
  dialogue.exchange_.OnReply({.code = 552, .text = "too large"});
  EXPECT_EQ(dialogue.result().status, DeliveryStatus::kRejected);
  EXPECT_FALSE(dialogue.exchange_.reusable());
}

TEST(SmtpExchangeOrderTest, FeaturesAreReadFromEhlo) {
  const SmtpFeatures features = SmtpFeatures::Of({.code = 250, .text = "x\nSIZE 1000\npipelining"});
  EXPECT_TRUE(features.pipelining);
  EXPECT_TRUE(features.size);
  EXPECT_FALSE(SmtpFeatures::Of({.code = 250, .text = "x\nSIZED\nXPIPELINING"}).pipelining);
  EXPECT_FALSE(SmtpFeatures::Of({.code = 250, .text = "x\nSIZED\nXPIPELINING"}).size);
}

}  // namespace smtp_exchange_test
}  // namespace escapement::handler
