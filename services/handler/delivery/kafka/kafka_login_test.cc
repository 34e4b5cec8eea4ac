// TLS and SASL, against a broker that refuses every login.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/address_rule.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/kafka/kafka_transport.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/kafka/kafka_attempts.h"
#include "tests/fixtures/kafka/kafka_login_broker.h"

namespace escapement::handler {
namespace kafka_login_test {

using fixtures::CollectingSink;
using fixtures::KafkaLoginBroker;
using fixtures::KafkaTargetOf;
using fixtures::MakeKafkaAttempts;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCanary[] = "canary-7f3a9c";

class KafkaLoginTest : public ::testing::Test {
 protected:
  storage::v1::KafkaTargetRecord Target(const std::string& host = "localhost") const {
    storage::v1::KafkaTargetRecord target =
        KafkaTargetOf(absl::StrCat(host, ":", broker_.port()), "orders");
    target.mutable_tls()->set_ca_certificates(ca_.pem());
    target.set_sasl_mechanism("PLAIN");
    target.set_sasl_username("robot");
    target.set_sasl_password(kCanary);
    return target;
  }

  DeliveryResult SendOne(const storage::v1::KafkaTargetRecord& target,
                         absl::Duration timeout = absl::Seconds(30)) {
    const uint64_t tag = ++sent_;
    transport_.Send(MakeKafkaAttempts(target, {.timeout = timeout}, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(sent_));
    return sink_->Only(tag);
  }

  testing::TestCa ca_;
  testing::Identity identity_ = ca_.Issue(1, "DNS:localhost");
  KafkaLoginBroker broker_{identity_.cert, identity_.key, ca_.pem()};
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  KafkaTransport transport_{KafkaTransport::Options{
      .addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback())}};
  size_t sent_ = 0;
};

TEST_F(KafkaLoginTest, FailedLoginFailsPromptlyWithoutThePassword) {
  for (int i = 0; i < 3; ++i) {
    const absl::Time begin = absl::Now();
    const DeliveryResult result = SendOne(Target());
    EXPECT_EQ(result.status, DeliveryStatus::kFailed);
    EXPECT_THAT(result.message, HasSubstr("no such login:***"));
    EXPECT_THAT(result.message, Not(HasSubstr(kCanary)));
    EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  }
  std::string login(1, '\0');
  absl::StrAppend(&login, "robot", std::string(1, '\0'), kCanary);
  EXPECT_EQ(broker_.seen().login, login);
  EXPECT_EQ(broker_.seen().client_certificates, 0u);
}

TEST_F(KafkaLoginTest, ClientCertificateIsShownWithItsChain) {
  // Another authority than the broker's: OpenSSL must not complete the chain from those it trusts.
  const testing::TestCa clients;
  const KafkaLoginBroker broker(identity_.cert, identity_.key, clients.pem());
  storage::v1::KafkaTargetRecord target = Target();
  target.set_brokers(absl::StrCat("localhost:", broker.port()));
  const testing::Identity client = clients.Issue(2, "DNS:escapement");
  target.mutable_tls()->set_client_certificate(client.cert + clients.pem());
  target.mutable_tls()->set_client_key(client.key);
  EXPECT_EQ(SendOne(target).status, DeliveryStatus::kFailed);
  EXPECT_EQ(broker.seen().failed_handshakes, 0u);
  EXPECT_EQ(broker.seen().client_certificates, 2u);
}

TEST_F(KafkaLoginTest, CertificateOfAnotherHostOrAuthorityGetsNoLogin) {
  EXPECT_EQ(SendOne(Target("127.0.0.1")).status, DeliveryStatus::kFailed) << "another host";
  storage::v1::KafkaTargetRecord target = Target();
  target.mutable_tls()->set_ca_certificates(testing::TestCa().pem());
  const DeliveryResult result = SendOne(target);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr("certificate"));
  target.mutable_tls()->clear_ca_certificates();
  EXPECT_EQ(SendOne(target).status, DeliveryStatus::kFailed) << "the system does not trust it";
  EXPECT_EQ(broker_.seen().login, "");
  EXPECT_GT(broker_.seen().failed_handshakes, 0u);
}

TEST_F(KafkaLoginTest, KeyOfAnotherCertificateIsRejected) {
  storage::v1::KafkaTargetRecord target = Target();
  target.mutable_tls()->set_client_certificate(identity_.cert);
  target.mutable_tls()->set_client_key(ca_.Issue(3).key);
  const DeliveryResult result = SendOne(target);
  EXPECT_EQ(result.status, DeliveryStatus::kRejected);
  EXPECT_THAT(result.message, Not(HasSubstr("PRIVATE KEY")));
}

}  // namespace kafka_login_test
}  // namespace escapement::handler
