// Addresses that must not be connected to, certificates, and secrets.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/net/address_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/kafka/kafka_transport.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/kafka/kafka_attempts.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/kafka/kafka_login_broker.h"

namespace escapement::handler {
namespace kafka_addresses_test {

using fixtures::CollectingSink;
using fixtures::KafkaCluster;
using fixtures::KafkaTargetOf;
using fixtures::MakeKafkaAttempts;
using fixtures::TcpForwarder;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCanary[] = "canary-7f3a9c";

class KafkaAddressesTest : public ::testing::Test {
 protected:
  KafkaAddressesTest() { cluster_.MakeTopic("orders", 1); }

  DeliveryResult SendOne(KafkaTransport& transport, const storage::v1::KafkaTargetRecord& target,
                         absl::Duration timeout = absl::Seconds(30)) {
    const uint64_t tag = ++sent_;
    transport.Send(MakeKafkaAttempts(target, {.timeout = timeout}, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(sent_));
    return sink_->Only(tag);
  }

  static KafkaTransport::Options Allowing(AddressRule rule) {
    return {.addresses = std::make_shared<AddressRule>(std::move(rule))};
  }

  KafkaCluster cluster_;
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  size_t sent_ = 0;
};

TEST_F(KafkaAddressesTest, RefusedBootstrapAddressFailsPromptly) {
  KafkaTransport transport(Allowing(AddressRule()));
  const std::string by_name =
      absl::StrReplaceAll(cluster_.bootstraps(), {{"127.0.0.1", "localhost"}});
  for (const std::string& brokers : {cluster_.bootstraps(), by_name}) {
    for (int i = 0; i < 2; ++i) {
      const absl::Time begin = absl::Now();
      const DeliveryResult result = SendOne(transport, KafkaTargetOf(brokers, "orders"));
      EXPECT_EQ(result.status, DeliveryStatus::kFailed);
      EXPECT_THAT(result.message, HasSubstr("is not allowed"));
      EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
    }
  }
  EXPECT_TRUE(cluster_.Read("orders").empty());
}

TEST_F(KafkaAddressesTest, RefusedAdvertisedAddressFailsPromptly) {
  // The cluster advertises 127.0.0.1, and may only be reached at 127.0.0.2.
  TcpForwarder forwarder("127.0.0.2", cluster_.bootstraps());
  const std::string brokers = absl::StrCat("127.0.0.2:", forwarder.port());
  {
    KafkaTransport transport(Allowing(AddressRule::AllowingLoopback()));
    EXPECT_EQ(SendOne(transport, KafkaTargetOf(brokers, "orders")).status,
              DeliveryStatus::kAccepted);
  }
  KafkaTransport transport(Allowing(*AddressRule::Allowing({"127.0.0.2/32"})));
  const absl::Time begin = absl::Now();
  const DeliveryResult result = SendOne(transport, KafkaTargetOf(brokers, "orders"));
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_THAT(result.message, HasSubstr(cluster_.bootstraps()));
  EXPECT_THAT(result.message, HasSubstr("is not allowed"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  EXPECT_EQ(cluster_.Read("orders").size(), 1u);
}

TEST_F(KafkaAddressesTest, PasswordIsInNoMessageAndNoLog) {
  storage::v1::KafkaTargetRecord target = KafkaTargetOf(cluster_.bootstraps(), "orders");
  target.set_sasl_username("robot");
  target.set_sasl_password(kCanary);
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  std::vector<std::string> messages;
  {
    KafkaTransport transport(Allowing(AddressRule::AllowingLoopback()));
    for (const char* mechanism : {"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"}) {
      target.set_sasl_mechanism(mechanism);
      if (target.sasl_mechanism() == "PLAIN") target.mutable_tls();
      // The mock brokers have neither SASL nor TLS.
      const DeliveryResult result = SendOne(transport, target, absl::Seconds(4));
      EXPECT_NE(result.status, DeliveryStatus::kAccepted);
      messages.push_back(result.message);
    }
    target.mutable_tls()->set_ca_certificates("no certificate");
    target.mutable_tls()->set_client_key(kCanary);
    target.mutable_tls()->set_client_certificate(kCanary);
    messages.push_back(SendOne(transport, target).message);
  }
  messages.push_back(::testing::internal::GetCapturedStderr());
  messages.push_back(::testing::internal::GetCapturedStdout());
  for (const std::string& message : messages) EXPECT_THAT(message, Not(HasSubstr(kCanary)));
  for (size_t i = 0; i < 4; ++i) EXPECT_THAT(messages[i], Not(::testing::IsEmpty()));
}

TEST_F(KafkaAddressesTest, UnusableCertificateOrSettingIsRejected) {
  KafkaTransport transport(Allowing(AddressRule::AllowingLoopback()));
  storage::v1::KafkaTargetRecord target = KafkaTargetOf(cluster_.bootstraps(), "orders");
  target.mutable_tls()->set_ca_certificates("no certificate");
  for (int i = 0; i < 2; ++i) {
    const DeliveryResult result = SendOne(transport, target);
    EXPECT_EQ(result.status, DeliveryStatus::kRejected);
    EXPECT_THAT(result.message, HasSubstr("ssl.ca.pem"));
  }
  target = KafkaTargetOf(cluster_.bootstraps(), "orders");
  target.set_sasl_mechanism("GSSAPI");
  EXPECT_EQ(SendOne(transport, target).status, DeliveryStatus::kRejected);
}

}  // namespace kafka_addresses_test
}  // namespace escapement::handler
