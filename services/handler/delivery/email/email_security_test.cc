// Tests of TLS, logins and addresses, against an independent server (Python's aiosmtpd).

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/smtp/email_test.h"

namespace escapement::handler {
namespace email_security_test {

using fixtures::EmailAttempts;
using fixtures::EmailContext;
using fixtures::EmailTarget;
using fixtures::kPassword;
using fixtures::Loopback;
using fixtures::SmtpServer;
using nlohmann::json;
using storage::v1::EmailTargetRecord;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using EmailSecurityTest = fixtures::EmailTest;

TEST_F(EmailSecurityTest, StartTlsWithLogin) {
  json config = WithTls("starttls");
  config["user"] = "mailer";
  config["password"] = kPassword;
  SmtpServer server(config);
  ASSERT_EQ(Send(WithLogin(Secure(server))).status, DeliveryStatus::kAccepted);
  const json message = server.NextMessage();
  EXPECT_EQ(message["tls"], true);
  EXPECT_EQ(message["user"], "mailer");
}

TEST_F(EmailSecurityTest, ImplicitTlsWithLogin) {
  json config = WithTls("implicit");
  config["user"] = "mailer";
  config["password"] = kPassword;
  SmtpServer server(config);
  ASSERT_EQ(Send(WithLogin(Secure(server, "smtps"))).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server.NextMessage()["user"], "mailer");
}

TEST_F(EmailSecurityTest, RefusedLoginFailsWithoutThePassword) {
  json config = WithTls("starttls");
  config["user"] = "mailer";
  config["password"] = "another";
  SmtpServer server(config);
  const DeliveryResult wrong = Send(WithLogin(Secure(server)));
  EXPECT_EQ(wrong.status, DeliveryStatus::kFailed);
  EXPECT_THAT(wrong.message,
              AllOf(HasSubstr("refused the login: SMTP 535 5.7.8"), Not(HasSubstr(kPassword))));
  const DeliveryResult none = Send(Secure(server));
  EXPECT_EQ(none.status, DeliveryStatus::kFailed);
  EXPECT_THAT(none.message, HasSubstr("SMTP 530"));
}

TEST_F(EmailSecurityTest, ServerWithoutStartTlsGetsNothing) {
  SmtpServer server(json::object());
  EmailTargetRecord target = Plain(server);
  target.set_plaintext(false);
  for (const EmailTargetRecord& one : {target, WithLogin(target)}) {
    const DeliveryResult result = Send(one);
    EXPECT_EQ(result.status, DeliveryStatus::kFailed);
    EXPECT_THAT(result.message, HasSubstr("STARTTLS"));
  }
  target.set_plaintext(true);
  const DeliveryResult clear = Send(WithLogin(target));
  EXPECT_EQ(clear.status, DeliveryStatus::kRejected);
  EXPECT_EQ(clear.message, "a password needs TLS");
}

TEST_F(EmailSecurityTest, LoginThatIsNotOfferedFails) {
  SmtpServer server(WithTls("starttls"));
  EmailTargetRecord target = WithLogin(Secure(server));
  const DeliveryResult result = Send(target);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, AllOf(HasSubstr("login"), Not(HasSubstr(kPassword))));
}

TEST_F(EmailSecurityTest, CertificateMustBeTrusted) {
  const testing::TestCa other;
  for (const char* kind : {"starttls", "implicit"}) {
    SmtpServer server(WithTls(kind));
    const char* scheme = std::string(kind) == "implicit" ? "smtps" : "smtp";
    EmailTargetRecord target = Secure(server, scheme);
    target.mutable_tls()->set_ca_certificates(other.pem());
    EXPECT_EQ(Send(target).status, DeliveryStatus::kFailed) << kind;
    target.clear_tls();
    EXPECT_EQ(Send(target).status, DeliveryStatus::kFailed) << kind;
    target.mutable_tls()->set_ca_certificates("no PEM");
    EXPECT_EQ(Send(target).status, DeliveryStatus::kFailed) << kind;
    EXPECT_EQ(Send(Secure(server, scheme)).status, DeliveryStatus::kAccepted) << kind;
    // A connection that one target has opened does not serve a target that would not trust it.
    target.mutable_tls()->set_ca_certificates(other.pem());
    EXPECT_EQ(Send(target).status, DeliveryStatus::kFailed) << kind;
  }
}

TEST_F(EmailSecurityTest, CertificateMustHaveTheName) {
  const testing::IdentityFiles files =
      testing::WriteIdentity(ca_.Issue(11, "DNS:other.test"), ::testing::TempDir(), "other");
  SmtpServer server(json{{"tls", "starttls"}, {"cert", files.cert}, {"key", files.key}});
  EXPECT_EQ(Send(Secure(server)).status, DeliveryStatus::kFailed);
}

TEST_F(EmailSecurityTest, ClientCertificateIsShown) {
  const testing::Identity client = ca_.Issue(12, "DNS:mailer.test");
  for (const char* kind : {"starttls", "implicit"}) {
    json config = WithTls(kind);
    config["client_ca"] = ca_file_;
    SmtpServer server(config);
    EmailTargetRecord target = Secure(server, std::string(kind) == "implicit" ? "smtps" : "smtp");
    const EmailTargetRecord without = target;
    target.mutable_tls()->set_client_certificate(client.cert);
    target.mutable_tls()->set_client_key(client.key);
    ASSERT_EQ(Send(target).status, DeliveryStatus::kAccepted) << kind;
    EXPECT_EQ(server.NextMessage()["client"], "mailer.test");
    // Others do not get the connection, or the TLS session, of the one with the certificate.
    EXPECT_NE(Send(without).status, DeliveryStatus::kAccepted) << kind;
    EmailTargetRecord stolen = target;
    stolen.mutable_tls()->set_client_key(ca_.Issue(13).key);
    EXPECT_EQ(Send(stolen).status, DeliveryStatus::kFailed) << kind;
  }
}

TEST_F(EmailSecurityTest, AddressThatIsNotAllowedIsRejected) {
  SmtpServer server(json::object());
  EmailTransport::Options options = Loopback();
  options.addresses = std::make_shared<const AddressRule>();
  EmailTransport transport(options);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    EmailTargetRecord target = EmailTarget(absl::StrCat("smtp://", host, ":", server.port()));
    target.set_plaintext(true);
    const uint64_t tag = next_tag_++;
    transport.Send(EmailAttempts(EmailContext(target), tag), sink_);
    ASSERT_TRUE(sink_->Await(tag));
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kFailed);
    EXPECT_EQ(sink_->Only(tag).message, "the address of the target is not allowed");
  }
  ASSERT_EQ(Send(Plain(server)).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server.NextMessage()["connection"], 1);
}

TEST_F(EmailSecurityTest, KeptConnectionServesTheSameLoginOnly) {
  json config = WithTls("starttls");
  config["user"] = "mailer";
  config["password"] = kPassword;
  SmtpServer server(config);
  ASSERT_EQ(Send(WithLogin(Secure(server))).status, DeliveryStatus::kAccepted);
  ASSERT_EQ(Send(WithLogin(Secure(server))).status, DeliveryStatus::kAccepted);
  EXPECT_EQ(server.NextMessage()["connection"], 1);
  EXPECT_EQ(server.NextMessage()["connection"], 1);
  EXPECT_EQ(Send(Secure(server)).status, DeliveryStatus::kFailed);
  EmailTargetRecord other = WithLogin(Secure(server));
  other.set_password("guess");
  EXPECT_EQ(Send(other).status, DeliveryStatus::kFailed);
}

}  // namespace email_security_test
}  // namespace escapement::handler
