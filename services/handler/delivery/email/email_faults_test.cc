// Tests against servers that hang, close or break the protocol.

#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/raw_call.h"
#include "tests/fixtures/smtp/email_test.h"
#include "tests/fixtures/smtp/smtp_peer.h"

namespace escapement::handler {
namespace email_faults_test {

using fixtures::EmailAttempts;
using fixtures::EmailContext;
using fixtures::EmailTarget;
using fixtures::Loopback;
using fixtures::SmtpPeer;
using storage::v1::EmailTargetRecord;
using ::testing::HasSubstr;
using ::testing::Not;

EmailTargetRecord To(int port) {
  EmailTargetRecord target = EmailTarget(absl::StrCat("smtp://127.0.0.1:", port));
  target.set_plaintext(true);
  return target;
}

// The result if the server stops to answer at this command: only a message may have arrived.
DeliveryStatus WithoutAnswerAt(const std::string& step) {
  return step == "." ? DeliveryStatus::kUnknown : DeliveryStatus::kFailed;
}

using EmailFaultsTest = fixtures::EmailTest;

// Each command in turn gets no answer.
TEST_F(EmailFaultsTest, SilenceIsUnknownOnlyAfterTheMessage) {
  for (const std::string step : {"", "EHLO", "MAIL", "RCPT", "DATA", "."}) {
    SmtpPeer peer([step](const std::string& command, int connection) {
      const bool now = step.empty() ? command.empty() : absl::StartsWith(command, step);
      return now ? SmtpPeer::kSilence : SmtpPeer::Accept(command, connection);
    });
    const absl::Time begin = absl::Now();
    EXPECT_EQ(Send(To(peer.port()), absl::Milliseconds(150)).status, WithoutAnswerAt(step)) << step;
    EXPECT_GE(absl::Now() - begin, absl::Milliseconds(145)) << step;
    EXPECT_LT(absl::Now() - begin, absl::Seconds(2)) << step;
  }
}

TEST_F(EmailFaultsTest, ClosedConnectionIsUnknownOnlyAfterTheMessage) {
  for (const std::string step : {"", "EHLO", "MAIL", "RCPT", "DATA", "."}) {
    SmtpPeer peer([step](const std::string& command, int connection) {
      const bool now = step.empty() ? command.empty() : absl::StartsWith(command, step);
      return now ? SmtpPeer::kClose : SmtpPeer::Accept(command, connection);
    });
    EXPECT_EQ(Send(To(peer.port())).status, WithoutAnswerAt(step)) << step;
    EXPECT_EQ(peer.connections(), 1) << step;
  }
}

TEST_F(EmailFaultsTest, OtherProtocolIsUnknownOnlyAfterTheMessage) {
  for (const std::string step : {"", "MAIL", "DATA", "."}) {
    SmtpPeer peer([step](const std::string& command, int connection) -> std::string {
      const bool now = step.empty() ? command.empty() : absl::StartsWith(command, step);
      return now ? "HTTP/1.1 400 Bad Request\r\n\r\n" : SmtpPeer::Accept(command, connection);
    });
    EXPECT_EQ(Send(To(peer.port()), absl::Seconds(2)).status, WithoutAnswerAt(step)) << step;
  }
}

TEST_F(EmailFaultsTest, ServerThatFloodsIsUnknown) {
  SmtpPeer peer([](const std::string& command, int connection) {
    return command == "." ? std::string(10 << 20, '2') : SmtpPeer::Accept(command, connection);
  });
  EXPECT_EQ(Send(To(peer.port())).status, DeliveryStatus::kUnknown);
}

TEST_F(EmailFaultsTest, ClosedPortGetsNothingAndFails) {
  const auto closed = fixtures::ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(closed.ok());
  close(closed->fd);
  const DeliveryResult result = Send(To(closed->port));
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_TRUE(result.not_sent);
}

TEST_F(EmailFaultsTest, InternationalAddressIsSentIfTheServerTakesIt) {
  for (const bool offers : {false, true}) {
    std::atomic<bool> said = false;
    SmtpPeer peer([offers, &said](const std::string& command, int connection) -> std::string {
      if (offers && absl::StartsWith(command, "EHLO"))
        return "250-peer.test\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n";
      if (absl::StartsWith(command, "MAIL") && absl::EndsWith(command, " SMTPUTF8")) said = true;
      return SmtpPeer::Accept(command, connection);
    });
    EmailTargetRecord target = To(peer.port());
    target.set_to(0, "jürgen@bücher.example");
    const DeliveryResult result = Send(target);
    EXPECT_EQ(result.status, offers ? DeliveryStatus::kAccepted : DeliveryStatus::kFailed);
    EXPECT_EQ(result.not_sent, !offers);
    EXPECT_EQ(said.load(), offers);
  }
}

TEST_F(EmailFaultsTest, RefusedConnectionFailsWithTheReason) {
  for (const char* greeting : {"554 5.7.1 you are blocked\r\n", "421 4.3.2 busy\r\n"}) {
    SmtpPeer peer([greeting](const std::string& command, int connection) {
      return command.empty() ? greeting : SmtpPeer::Accept(command, connection);
    });
    const DeliveryResult result = Send(To(peer.port()));
    EXPECT_EQ(result.status, DeliveryStatus::kFailed);
    EXPECT_THAT(result.message,
                HasSubstr(absl::StrCat("refused the connection: SMTP ", std::string(greeting, 3))));
  }
}

// libcurl would wait for the answer to its QUIT inside of curl_multi_perform. The transport's
// thread must not: another server's message would be late.
TEST_F(EmailFaultsTest, ServerThatIgnoresQuitHoldsNobody) {
  const auto silent_at_quit = [](const std::string& command, int connection) -> std::string {
    if (command == "QUIT") return SmtpPeer::kSilence;
    return SmtpPeer::Accept(command, connection);
  };
  SmtpPeer no_tls(silent_at_quit);
  SmtpPeer refusing([](const std::string& command, int) -> std::string {
    return command.empty() ? "554 no\r\n" : SmtpPeer::kSilence;
  });
  SmtpPeer strange([](const std::string& command, int) -> std::string {
    return command.empty()     ? "220 hello\r\n"
           : command == "QUIT" ? SmtpPeer::kSilence
                               : "354 go\r\n";
  });
  EmailTargetRecord secure = To(no_tls.port());
  secure.set_plaintext(false);
  const absl::Time begin = absl::Now();
  EXPECT_THAT(Send(secure).message, HasSubstr("STARTTLS"));
  EXPECT_EQ(Send(To(refusing.port())).status, DeliveryStatus::kFailed);
  EXPECT_NE(Send(To(strange.port())).status, DeliveryStatus::kAccepted);
  EXPECT_LT(absl::Now() - begin, absl::Milliseconds(900));
  for (const SmtpPeer* peer : {&no_tls, &refusing, &strange})
    EXPECT_THAT(peer->commands(), Not(::testing::Contains("QUIT")));
}

TEST_F(EmailFaultsTest, SlowServerDoesNotHoldOthers) {
  SmtpPeer slow([](const std::string& command, int connection) {
    return command == "." ? SmtpPeer::kSilence : SmtpPeer::Accept(command, connection);
  });
  SmtpPeer quick;
  transport_.Send(EmailAttempts(EmailContext(To(slow.port())), 1'000, 50), sink_);
  ASSERT_TRUE(slow.AwaitCommand("."));
  const absl::Time begin = absl::Now();
  transport_.Send(EmailAttempts(EmailContext(To(quick.port())), 1, 100), sink_);
  ASSERT_TRUE(sink_->Await(100));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  for (uint64_t tag = 1; tag <= 100; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted);
  EXPECT_LE(slow.connections(), 4);
  EXPECT_LE(quick.connections(), 4);
}

TEST_F(EmailFaultsTest, WaitingAttemptsAreUnsentAtHalfTheirTimeouts) {
  SmtpPeer slow([](const std::string& command, int connection) {
    return command == "." ? SmtpPeer::kSilence : SmtpPeer::Accept(command, connection);
  });
  const auto context = EmailContext(To(slow.port()));
  context->timeout = absl::Milliseconds(600);
  transport_.Send(EmailAttempts(context, 1, 10), sink_);
  ASSERT_TRUE(sink_->Await(10));
  for (uint64_t tag = 1; tag <= 10; ++tag) {
    EXPECT_EQ(sink_->Only(tag).status,
              tag <= 4 ? DeliveryStatus::kUnknown : DeliveryStatus::kUnsent);
  }
  EXPECT_EQ(slow.connections(), 4);
}

TEST_F(EmailFaultsTest, KeptConnectionThatWasClosedIsReplaced) {
  // Each connection takes one message and then closes at the next command, or says so before.
  for (const char* end : {SmtpPeer::kClose, "421 4.4.2 idle for too long\r\n"}) {
    std::atomic<int> messages = 0;
    SmtpPeer peer([&messages, end](const std::string& command, int connection) -> std::string {
      if (absl::StartsWith(command, "MAIL") && messages.load() >= connection) return end;
      if (command == ".") ++messages;
      return SmtpPeer::Accept(command, connection);
    });
    for (int i = 1; i <= 3; ++i) {
      const DeliveryResult result = Send(To(peer.port()));
      EXPECT_EQ(result.status, DeliveryStatus::kAccepted) << result.message;
      EXPECT_EQ(peer.connections(), i);
    }
    EXPECT_EQ(messages.load(), 3);
  }
}

TEST_F(EmailFaultsTest, ConnectionsThatCloseSoonLoseNothing) {
  absl::Mutex mutex;
  std::map<int, int> mails;  // by connection
  SmtpPeer peer([&](const std::string& command, int connection) -> std::string {
    absl::MutexLock lock(&mutex);
    // A connection takes one to three messages.
    if (absl::StartsWith(command, "MAIL") && mails[connection] > connection % 3)
      return SmtpPeer::kClose;
    if (command == ".") ++mails[connection];
    return SmtpPeer::Accept(command, connection);
  });
  constexpr uint64_t kCount = 1'000;
  for (uint64_t tag = 1; tag <= kCount; ++tag) {
    EmailTargetRecord target = To(peer.port());
    target.mutable_tls()->set_ca_certificates(absl::StrCat("authority ", tag % 7));
    transport_.Send(EmailAttempts(EmailContext(target), tag), sink_);
  }
  ASSERT_TRUE(sink_->Await(kCount));
  for (const auto& [tag, results] : sink_->results()) {
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
  }
  absl::MutexLock lock(&mutex);
  int sum = 0;
  for (const auto& [connection, count] : mails) sum += count;
  EXPECT_EQ(sum, static_cast<int>(kCount));
}

// The message may have arrived, so it must not be sent again in the same attempt.
TEST_F(EmailFaultsTest, MessageIsNotRepeatedWithinAnAttempt) {
  std::atomic<int> messages = 0;
  SmtpPeer peer([&messages](const std::string& command, int connection) -> std::string {
    if (command == "." && ++messages == 2) return SmtpPeer::kClose;
    return SmtpPeer::Accept(command, connection);
  });
  EXPECT_EQ(Send(To(peer.port())).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(Send(To(peer.port())).status, DeliveryStatus::kUnknown);
  EXPECT_EQ(messages.load(), 2);
  EXPECT_EQ(peer.connections(), 1);
}

TEST_F(EmailFaultsTest, ConnectionIsReplacedAfterManyMessages) {
  SmtpPeer peer;
  EmailTransport::Options options = Loopback();
  options.connections_per_server_max = 1;
  options.mails_per_connection_max = 10;
  EmailTransport transport(options);
  transport.Send(EmailAttempts(EmailContext(To(peer.port())), 1, 100), sink_);
  ASSERT_TRUE(sink_->Await(100));
  EXPECT_EQ(peer.connections(), 10);
  EXPECT_THAT(peer.commands(), ::testing::Contains("QUIT").Times(::testing::Ge(9u)));
}

TEST_F(EmailFaultsTest, ServerWithoutExtensionsIsServed) {
  SmtpPeer peer([](const std::string& command, int connection) -> std::string {
    if (absl::StartsWith(command, "EHLO")) return "502 5.5.1 unknown command\r\n";
    return SmtpPeer::Accept(command, connection);
  });
  EXPECT_EQ(Send(To(peer.port())).status, DeliveryStatus::kAccepted);
  EXPECT_THAT(peer.commands(), ::testing::Contains("HELO client.test"));
  EXPECT_THAT(peer.commands(), ::testing::Contains("MAIL FROM:<jobs@example.com>"));
}

TEST_F(EmailFaultsTest, EhloHasTheChosenName) {
  SmtpPeer peer;
  for (const char* name : {"jobs.example.com", "[192.0.2.1]", "[IPv6:2001:db8::1]"}) {
    EmailTransport::Options options = Loopback();
    options.ehlo_name = name;
    EmailTransport transport(options);
    const uint64_t tag = next_tag_++;
    transport.Send(EmailAttempts(EmailContext(To(peer.port())), tag), sink_);
    ASSERT_TRUE(sink_->Await(tag));
    EXPECT_THAT(peer.commands(), ::testing::Contains(absl::StrCat("EHLO ", name)));
  }
}

TEST_F(EmailFaultsTest, IdleConnectionIsClosed) {
  SmtpPeer peer;
  EmailTransport::Options options = Loopback();
  options.idle_timeout = absl::Milliseconds(50);
  EmailTransport transport(options);
  transport.Send(EmailAttempts(EmailContext(To(peer.port())), 1), sink_);
  ASSERT_TRUE(peer.AwaitCommand("QUIT"));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kAccepted);
}

// Idle connections count for the server's bound, too.
TEST_F(EmailFaultsTest, FifthLoginClosesAnIdleConnection) {
  SmtpPeer peer;
  // Certificates that nobody needs make the targets differ, so they share no connection.
  const auto send = [&](int login) {
    EmailTargetRecord target = To(peer.port());
    target.mutable_tls()->set_ca_certificates(absl::StrCat("authority ", login));
    return Send(target).status;
  };
  for (int login = 1; login <= 4; ++login) {
    EXPECT_EQ(send(login), DeliveryStatus::kAccepted);
    EXPECT_EQ(send(login), DeliveryStatus::kAccepted);
    EXPECT_EQ(peer.connections(), login);
  }
  EXPECT_THAT(peer.commands(), Not(::testing::Contains("QUIT")));
  EXPECT_EQ(send(5), DeliveryStatus::kAccepted);
  EXPECT_TRUE(peer.AwaitCommand("QUIT"));
  // The first login was idle for the longest time.
  for (const int login : {2, 3, 4, 5}) EXPECT_EQ(send(login), DeliveryStatus::kAccepted);
  EXPECT_EQ(peer.connections(), 5);
}

TEST_F(EmailFaultsTest, DestructorAnswersAllAttempts) {
  SmtpPeer slow([](const std::string& command, int connection) {
    return command == "." ? SmtpPeer::kSilence : SmtpPeer::Accept(command, connection);
  });
  SmtpPeer mute([](const std::string&, int) { return SmtpPeer::kSilence; });
  auto transport = std::make_unique<EmailTransport>(Loopback());
  transport->Send(EmailAttempts(EmailContext(To(slow.port())), 1, 50), sink_);
  transport->Send(EmailAttempts(EmailContext(To(mute.port())), 51, 50), sink_);
  ASSERT_TRUE(slow.AwaitCommand("."));
  EXPECT_EQ(sink_->count(), 0u);
  transport.reset();
  EXPECT_EQ(sink_->count(), 100u);
  for (uint64_t tag = 1; tag <= 100; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnknown);
}

// The server repeats the secret wherever it can.
TEST_F(EmailFaultsTest, PasswordThatTheServerRepeatsIsNotShown) {
  SmtpPeer peer([](const std::string& command, int connection) -> std::string {
    if (absl::StartsWith(command, "RCPT")) return "550 5.1.1 is it canary-pass-0123?\r\n";
    return SmtpPeer::Accept(command, connection);
  });
  EmailTargetRecord target = To(peer.port());
  // Without a user it is not sent, but it is a secret all the same.
  target.set_password("canary-pass-0123");
  const DeliveryResult result = Send(target);
  EXPECT_EQ(result.status, DeliveryStatus::kRejected);
  EXPECT_THAT(result.message, Not(HasSubstr("canary")));
}

TEST_F(EmailFaultsTest, TenThousandMailsArriveOnce) {
  constexpr uint64_t kCount = 10'000;
  std::atomic<uint64_t> messages = 0;
  SmtpPeer peer([&messages](const std::string& command, int connection) {
    if (command == ".") ++messages;
    return SmtpPeer::Accept(command, connection);
  });
  const auto context = EmailContext(To(peer.port()), std::string(500, 'p'));
  const absl::Time begin = absl::Now();
  for (uint64_t first = 1; first <= kCount; first += 500)
    transport_.Send(EmailAttempts(context, first, 500), sink_);
  ASSERT_TRUE(sink_->Await(kCount));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  for (const auto& [tag, results] : sink_->results()) {
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted);
  }
  EXPECT_EQ(messages.load(), kCount);
  RecordProperty("mails_per_second", static_cast<int>(kCount / seconds));
}

}  // namespace email_faults_test
}  // namespace escapement::handler
