// Tests against an independent server and parser (Python's aiosmtpd and email).

#include "services/handler/delivery/email/email_transport.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/handler/delivery/email/mail_message.h"
#include "tests/fixtures/smtp/email_test.h"

namespace escapement::handler {
namespace email_transport_test {

using fixtures::EmailAttempts;
using fixtures::EmailContext;
using fixtures::EmailTarget;
using fixtures::SmtpServer;
using nlohmann::json;
using storage::v1::EmailTargetRecord;
using ::testing::AllOf;
using ::testing::HasSubstr;

using EmailTransportTest = fixtures::EmailTest;

// Each header must be there once.
std::map<std::string, std::string> HeadersOf(const json& message) {
  std::map<std::string, std::string> headers;
  for (const json& pair : message["headers"])
    EXPECT_TRUE(headers.emplace(pair[0], pair[1]).second) << pair[0];
  return headers;
}

TEST_F(EmailTransportTest, MessageHasExactlyTheseHeaders) {
  SmtpServer server(json::object());
  EmailTargetRecord target = Plain(server);
  target.add_to("bob@example.net");
  target.set_subject("{{payload.name}} failed");
  target.set_text("Index {{index}} of {{count}}, attempt {{attempt}}: {{payload.why}}");
  const auto context = EmailContext(target, R"({"name": "Nightly", "why": "no disk"})");
  auto attempts = EmailAttempts(context, 7);
  attempts[0].token = "token-1";
  const absl::Time before = absl::Now();
  transport_.Send(std::move(attempts), sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(7).status, DeliveryStatus::kAccepted) << sink_->Only(7).message;
  EXPECT_EQ(sink_->Only(7).message, "");

  const json message = server.NextMessage();
  EXPECT_EQ(message["from"], "jobs@example.com");
  EXPECT_EQ(message["to"], json({"ann@example.org", "bob@example.net"}));
  EXPECT_EQ(message["text"], "Index 7 of 9, attempt 2: no disk\n");
  EXPECT_EQ(message["ehlo"], "client.test");
  EXPECT_EQ(message["defects"], json::array());
  std::map<std::string, std::string> headers = HeadersOf(message);
  absl::Time date;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC1123_full, headers["Date"], &date, &error)) << error;
  EXPECT_LE(absl::AbsDuration(date - before), absl::Seconds(20));
  headers.erase("Date");
  EXPECT_THAT(headers["Message-ID"],
              AllOf(::testing::StartsWith("<event-7."), ::testing::EndsWith("@example.com>")));
  headers.erase("Message-ID");
  const std::map<std::string, std::string> expected = {
      {"From", "jobs@example.com"},
      {"To", "ann@example.org, bob@example.net"},
      {"Subject", "Nightly failed"},
      {"ce-specversion", "1.0"},
      {"ce-type", "escapement.trigger.v1"},
      {"ce-id", "event-7"},
      {"ce-source", "/tenants/default/schedules/nightly"},
      {"ce-time", "2026-03-01T00:00:00Z"},
      {"ce-subject", "2026-03-01T00:00:00Z/7"},
      {"Idempotency-Key", "event-7"},
      {"Escapement-Launch-Time", "2026-03-01T00:00:00.250000Z"},
      {"Escapement-Attempt", "2"},
      {"Escapement-Index", "7"},
      {"Escapement-Count", "9"},
      {"Escapement-Token", "token-1"},
      {"Auto-Submitted", "auto-generated"},
      {"MIME-Version", "1.0"},
      {"Content-Type", "text/plain; charset=\"utf-8\""},
      {"Content-Transfer-Encoding", "quoted-printable"}};
  EXPECT_EQ(headers, expected);
}

TEST_F(EmailTransportTest, MessageIdIsTheSameOnEachAttempt) {
  SmtpServer server(json::object());
  const auto context = EmailContext(Plain(server));
  const auto other_source = EmailContext(Plain(server));
  other_source->source = "/tenants/other/schedules/nightly";
  std::vector<std::string> ids;
  for (const auto& from : {context, context, other_source}) {
    auto attempts = EmailAttempts(from, next_tag_++);
    attempts[0].event_id = "same id <\r\n> é";
    attempts[0].attempt = static_cast<uint32_t>(next_tag_);
    transport_.Send(std::move(attempts), sink_);
    ids.push_back(HeadersOf(server.NextMessage())["Message-ID"]);
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_NE(ids[0], ids[2]);
  EXPECT_TRUE(sink_->Await(3));
}

TEST_F(EmailTransportTest, TextsArriveAsTheyAre) {
  SmtpServer server(json{{"pipelining", true}});
  EmailTargetRecord target = Plain(server);
  target.set_subject("S{{payload}}");
  std::string random;
  uint32_t state = 1;
  while (random.size() < 3'000) {
    state = state * 1664525 + 1013904223;
    random.push_back(static_cast<char>("ab .=\tF\0?_"[(state >> 24) % 10]));
  }
  for (const std::string& text :
       {std::string("plain"), std::string("🎉 Grüße 漢字"), std::string("tab\there  "),
        std::string(5'000, 'x'), std::string(5'000, '.'), std::string("\0nul\0", 5),
        std::string("=?utf-8?Q?x?="), random}) {
    ASSERT_EQ(Send(EmailContext(target, text)).status, DeliveryStatus::kAccepted);
    const json message = server.NextMessage();
    EXPECT_EQ(message["text"], text + "\n");
    EXPECT_EQ(message["defects"], json::array());
  }
  for (const std::string& text : {std::string(".\n..\n.\n\n.x\nFrom me\n>From\n"),
                                  std::string("\n\n\na\n"), std::string("trailing \nblanks\t\n")}) {
    ASSERT_EQ(Send(EmailContext(target, text)).status, DeliveryStatus::kAccepted);
    EXPECT_EQ(server.NextMessage()["text"], text);
  }
}

TEST_F(EmailTransportTest, SubjectsArriveAsTheyAre) {
  SmtpServer server(json::object());
  EmailTargetRecord target = Plain(server);
  target.set_subject("{{payload}}");
  std::string emoji;
  for (int i = 0; i < 500; ++i) emoji += "🎉";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"🎉 Grüße 漢字", "🎉 Grüße 漢字"},
      {"=?utf-8?Q?x?=", "=?utf-8?Q?x?="},
      {"a\nb\r\nc\td", "a b  c d"},
      {"  blanks around ", "blanks around"},
      {"", ""},
      {std::string(600, 'x'), std::string(500, 'x')},
      {emoji + "x", emoji}};
  for (const auto& [payload, subject] : cases) {
    ASSERT_EQ(Send(EmailContext(target, payload)).status, DeliveryStatus::kAccepted);
    EXPECT_EQ(HeadersOf(server.NextMessage())["Subject"], subject);
  }
}

TEST_F(EmailTransportTest, LargeTextsAreSentAndLargerOnesCut) {
  SmtpServer server(json{{"pipelining", true}});
  const std::string line = std::string(1'000, 'y') + "\n";
  std::string text;
  while (text.size() + line.size() <= kMailTextFilledBytesMax) text += line;
  text += std::string(kMailTextFilledBytesMax - text.size() - 1, 'z') + "\n";
  ASSERT_EQ(text.size(), size_t{256} << 10);
  ASSERT_EQ(Send(EmailContext(Plain(server), text)).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server.NextMessage()["text"], text);
  ASSERT_EQ(Send(EmailContext(Plain(server), text + "more")).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server.NextMessage()["text"], text);
  std::string emoji;
  while (emoji.size() < kMailTextFilledBytesMax) emoji += "🎉";
  ASSERT_EQ(Send(EmailContext(Plain(server), "x" + emoji)).status, DeliveryStatus::kAccepted);
  emoji.resize(emoji.size() - 4);
  EXPECT_EQ(server.NextMessage()["text"], "x" + emoji + "\n");
}

TEST_F(EmailTransportTest, HostileValuesAddNoHeaderAndNoReceiver) {
  SmtpServer server(json{{"pipelining", true}});
  for (const char* end : {"\r\n", "\n", "\r", "\r\n\r\n", "\r\n.\r\n"}) {
    const std::string hostile =
        absl::StrCat("x", end, "Bcc: eve@evil.test", end, "X-Evil: 1", end, ".", end,
                     "MAIL FROM:<eve@evil.test>", end, "RCPT TO:<eve@evil.test>", end, "DATA", end);
    EmailTargetRecord target = Plain(server);
    target.set_subject(hostile + "{{payload}}{{id}}");
    target.set_text("{{payload}}{{source}}" + hostile);
    const auto context = EmailContext(target, hostile);
    context->source = hostile;
    context->occurrence = hostile;
    auto attempts = EmailAttempts(context, next_tag_++);
    attempts[0].event_id = hostile;
    attempts[0].token = hostile;
    transport_.Send(std::move(attempts), sink_);
    const json message = server.NextMessage();
    ASSERT_TRUE(message.is_object());
    EXPECT_EQ(message["to"], json({"ann@example.org"}));
    EXPECT_EQ(message["from"], "jobs@example.com");
    EXPECT_EQ(message["headers"].size(), 21u);
    for (const auto& [name, value] : HeadersOf(message)) {
      EXPECT_NE(name, "Bcc");
      EXPECT_NE(name, "X-Evil");
    }
    EXPECT_THAT(message["text"].get<std::string>(), HasSubstr("RCPT TO:<eve@evil.test>"));
    for (const absl::string_view line :
         absl::StrSplit(message["raw"].get_ref<const std::string&>(), "\r\n")) {
      EXPECT_LE(line.size(), 998u);
      EXPECT_EQ(line.find_first_of("\r\n"), absl::string_view::npos);
    }
  }
  ASSERT_TRUE(sink_->Await(5));
}

TEST_F(EmailTransportTest, HostileAddressesAreRejected) {
  SmtpServer server(json::object());
  for (const char* hostile : {"a@b.org>\r\nRCPT TO:<eve@evil.test", "a@b.org\nBcc: eve@evil.test",
                              "a@b.org, eve@evil.test", "", "a b@c.org", "a@b.org> SIZE=1"}) {
    EmailTargetRecord target = Plain(server);
    target.set_from(hostile);
    EXPECT_EQ(Send(target).status, DeliveryStatus::kRejected) << hostile;
    target = Plain(server);
    target.add_to(hostile);
    EXPECT_EQ(Send(target).status, DeliveryStatus::kRejected) << hostile;
  }
  EmailTargetRecord target = Plain(server);
  target.clear_to();
  EXPECT_EQ(Send(target).status, DeliveryStatus::kRejected);
  target = Plain(server);
  target.set_text("{{no such place}}");
  EXPECT_EQ(Send(target).status, DeliveryStatus::kRejected);
  for (const char* uri : {"", "http://localhost", "smtp://", "smtp://u:p@localhost",
                          "smtp://localhost/evil.test", "smtp://localhost\r\nRSET"}) {
    target = EmailTarget(uri);
    target.set_plaintext(true);
    EXPECT_EQ(Send(target).status, DeliveryStatus::kRejected) << uri;
  }
  // Only this one has reached the server.
  ASSERT_EQ(Send(Plain(server)).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server.NextMessage()["connection"], 1);
}

TEST_F(EmailTransportTest, EachReceiverGetsTheMessage) {
  SmtpServer server(json{{"pipelining", true}});
  EmailTargetRecord target = Plain(server);
  target.clear_to();
  json expected = json::array();
  for (int i = 0; i < 50; ++i) {
    target.add_to(absl::StrCat("receiver-", i, "-", std::string(100, 'x'), "@example.org"));
    expected.push_back(target.to(i));
  }
  ASSERT_EQ(Send(target).status, DeliveryStatus::kAccepted);
  const json message = server.NextMessage();
  EXPECT_EQ(message["to"], expected);
  std::vector<std::string> shown = absl::StrSplit(HeadersOf(message)["To"], ", ");
  EXPECT_EQ(json(shown), expected);
}

TEST_F(EmailTransportTest, RefusalsBecomeResults) {
  for (const bool pipelining : {false, true}) {
    SmtpServer server(json{{"pipelining", pipelining}});
    EXPECT_EQ(StatusFor(Plain(server), "refuse-450@x.org"), DeliveryStatus::kFailed);
    EXPECT_EQ(StatusFor(Plain(server), "refuse-550@x.org"), DeliveryStatus::kRejected);
    EXPECT_EQ(StatusFor(Plain(server), "data-451@x.org"), DeliveryStatus::kFailed);
    EXPECT_EQ(StatusFor(Plain(server), "data-554@x.org"), DeliveryStatus::kRejected);
    EXPECT_EQ(StatusFor(Plain(server), "reset@x.org"), DeliveryStatus::kUnknown);
    EmailTargetRecord target = Plain(server);
    target.set_from("refuse-553@x.org");
    const DeliveryResult result = Send(target);
    EXPECT_EQ(result.status, DeliveryStatus::kRejected);
    EXPECT_THAT(result.message, HasSubstr("SMTP 553: 5.1.0 no such sender"));
    // After all of these the server still takes messages, on the same connection.
    EXPECT_EQ(StatusFor(Plain(server), "good@x.org"), DeliveryStatus::kAccepted);
    EXPECT_LE(server.NextMessage()["connection"], 2);
  }
}

TEST_F(EmailTransportTest, AcceptedReceiversGetTheMessage) {
  SmtpServer server(json::object());
  EmailTargetRecord target = Plain(server);
  target.add_to("refuse-550@x.org");
  target.add_to("refuse-450@x.org");
  const DeliveryResult result = Send(target);
  EXPECT_EQ(result.status, DeliveryStatus::kAccepted);
  EXPECT_THAT(result.answer, HasSubstr("2 of 3 receivers were refused"));
  EXPECT_EQ(server.NextMessage()["to"], json({"ann@example.org"}));
}

TEST_F(EmailTransportTest, HangingServerIsUnknownAtTheTimeout) {
  SmtpServer server(json::object());
  EmailTargetRecord target = Plain(server);
  target.set_to(0, "hang@x.org");
  const auto context = EmailContext(target);
  context->timeout = absl::Milliseconds(300);
  const absl::Time begin = absl::Now();
  const DeliveryResult result = Send(context);
  EXPECT_EQ(result.status, DeliveryStatus::kUnknown);
  EXPECT_THAT(result.message, HasSubstr("timed out before the server answered to the message"));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(300));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
}

}  // namespace email_transport_test
}  // namespace escapement::handler
