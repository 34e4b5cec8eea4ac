#include <librdkafka/rdkafka.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "escapement/storage/v1/records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/kafka/producer.h"

namespace escapement::handler {
namespace cluster_config_test {

using storage::v1::KafkaTargetRecord;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;

KafkaTargetRecord FullTarget() {
  KafkaTargetRecord target;
  target.set_brokers("kafka-1.example.com:9093,[2001:db8::1]:9093");
  target.set_topic("TOPIC");
  target.set_key("KEY");
  target.mutable_tls()->set_ca_certificates("CA");
  target.mutable_tls()->set_client_certificate("CERTIFICATE");
  target.mutable_tls()->set_client_key("PRIVATE");
  target.set_sasl_mechanism("SCRAM-SHA-512");
  target.set_sasl_username("USER");
  target.set_sasl_password("PASSWORD");
  return target;
}

std::map<std::string, std::string> PropertiesOf(const KafkaTargetRecord& target) {
  const auto properties = KafkaProperties(target, {});
  EXPECT_TRUE(properties.ok()) << properties.status();
  std::map<std::string, std::string> map;
  for (const KafkaProperty& property : *properties) {
    EXPECT_TRUE(map.emplace(property.name, property.value).second) << property.name;
  }
  return map;
}

TEST(ClusterConfigTest, OnlyEightPropertiesComeFromTheTarget) {
  const std::set<std::string> allowed = {
      "bootstrap.servers", "security.protocol", "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem",
      "sasl.mechanisms", "sasl.username", "sasl.password",
      // Fixed values, which the target can only turn on.
      "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"};
  KafkaTargetRecord plain;
  plain.set_brokers("b:1");
  const std::map<std::string, std::string> base = PropertiesOf(plain);
  std::set<std::string> different;
  for (const auto& [name, value] : PropertiesOf(FullTarget())) {
    const auto found = base.find(name);
    if (found == base.end() || found->second != value) different.insert(name);
  }
  EXPECT_EQ(different, allowed);
}

TEST(ClusterConfigTest, ValuesReachTheirProperties) {
  const std::map<std::string, std::string> properties = PropertiesOf(FullTarget());
  EXPECT_THAT(
      properties,
      IsSupersetOf({Pair("security.protocol", "sasl_ssl"),
                    Pair("ssl.endpoint.identification.algorithm", "https"),
                    Pair("enable.ssl.certificate.verification", "true"), Pair("ssl.ca.pem", "CA"),
                    Pair("ssl.certificate.pem", "CERTIFICATE"), Pair("ssl.key.pem", "PRIVATE"),
                    Pair("sasl.mechanisms", "SCRAM-SHA-512"), Pair("sasl.username", "USER"),
                    Pair("sasl.password", "PASSWORD"), Pair("enable.idempotence", "true"),
                    Pair("acks", "all")}));
  EXPECT_EQ(properties.count("debug"), 0u);
  KafkaTargetRecord target = FullTarget();
  target.clear_tls();
  EXPECT_EQ(PropertiesOf(target).at("security.protocol"), "sasl_plaintext");
  target.clear_sasl_mechanism();
  EXPECT_EQ(PropertiesOf(target).at("security.protocol"), "plaintext");
  EXPECT_EQ(PropertiesOf(target).count("sasl.password"), 0u);
  target.mutable_tls();
  EXPECT_EQ(PropertiesOf(target).at("security.protocol"), "ssl");
  EXPECT_EQ(PropertiesOf(target).count("ssl.ca.pem"), 0u);
}

TEST(ClusterConfigTest, LibrdkafkaTakesEachConfiguration) {
  for (const char* mechanism : {"", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}) {
    for (const bool tls : {false, true}) {
      KafkaTargetRecord target;
      target.set_brokers("127.0.0.1:1");
      target.set_sasl_mechanism(mechanism);
      target.set_sasl_username("USER");
      target.set_sasl_password("PASSWORD");
      if (tls) target.mutable_tls();
      if (target.sasl_mechanism() == "PLAIN" && !tls) continue;
      for (const int seconds : {1, 5, 3600}) {
        const auto properties = KafkaProperties(
            target, {.message_timeout = KafkaMessageTimeout(absl::Seconds(seconds))});
        ASSERT_TRUE(properties.ok());
        char error[512] = {};
        rd_kafka_conf_t* conf = rd_kafka_conf_new();
        rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
        for (const KafkaProperty& property : *properties) {
          ASSERT_EQ(rd_kafka_conf_set(conf, property.name.c_str(), property.value.c_str(), error,
                                      sizeof(error)),
                    RD_KAFKA_CONF_OK)
              << error;
        }
        rd_kafka_t* producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
        ASSERT_NE(producer, nullptr) << error;
        rd_kafka_destroy(producer);
      }
    }
  }
}

TEST(ClusterConfigTest, OtherBrokersAndMechanismsAreRefused) {
  KafkaTargetRecord target = FullTarget();
  for (const char* brokers : {"", "SSL://b:1", "b:1\nssl.ca.location=x", "b:1 c:1", "b/../c:1"}) {
    target.set_brokers(brokers);
    EXPECT_FALSE(KafkaProperties(target, {}).ok()) << brokers;
  }
  target = FullTarget();
  for (const char* mechanism : {"GSSAPI", "OAUTHBEARER", "plain"}) {
    target.set_sasl_mechanism(mechanism);
    EXPECT_FALSE(KafkaProperties(target, {}).ok()) << mechanism;
  }
  target.set_sasl_mechanism("PLAIN");
  EXPECT_TRUE(KafkaProperties(target, {}).ok());
  target.clear_tls();
  EXPECT_FALSE(KafkaProperties(target, {}).ok()) << "the password would be readable";
}

TEST(ClusterConfigTest, EachPartOfAClusterMakesAnotherKey) {
  std::set<std::string> keys;
  const auto add = [&keys](const auto& change) {
    KafkaTargetRecord target = FullTarget();
    change(target);
    keys.insert(KafkaClusterKey(target, absl::Seconds(8)));
  };
  add([](KafkaTargetRecord& t) {});
  add([](KafkaTargetRecord& t) { t.set_brokers("other:1"); });
  add([](KafkaTargetRecord& t) { t.mutable_tls()->set_ca_certificates("x"); });
  add([](KafkaTargetRecord& t) { t.mutable_tls()->set_client_certificate("x"); });
  add([](KafkaTargetRecord& t) { t.mutable_tls()->set_client_key("x"); });
  add([](KafkaTargetRecord& t) { t.mutable_tls()->Clear(); });
  add([](KafkaTargetRecord& t) { t.clear_tls(); });
  add([](KafkaTargetRecord& t) { t.set_sasl_mechanism("PLAIN"); });
  add([](KafkaTargetRecord& t) { t.set_sasl_username("x"); });
  add([](KafkaTargetRecord& t) { t.set_sasl_password("x"); });
  EXPECT_EQ(keys.size(), 10u);
  keys.insert(KafkaClusterKey(FullTarget(), absl::Seconds(28)));
  EXPECT_EQ(keys.size(), 11u);
  add([](KafkaTargetRecord& t) { t.set_topic("other"); });
  add([](KafkaTargetRecord& t) { t.set_key("other"); });
  EXPECT_EQ(keys.size(), 11u) << "topics share a producer";
}

TEST(ClusterConfigTest, MessageTimeoutEndsBeforeTheAttempt) {
  EXPECT_EQ(KafkaMessageTimeout(absl::Milliseconds(10)), absl::Seconds(1));
  EXPECT_EQ(KafkaMessageTimeout(absl::Seconds(10)), absl::Seconds(8));
  EXPECT_EQ(KafkaMessageTimeout(absl::Seconds(30)), absl::Seconds(28));
  EXPECT_EQ(KafkaMessageTimeout(absl::Hours(1)), absl::Seconds(3598));
  for (absl::Duration t = absl::Milliseconds(2500); t < absl::Hours(1); t += absl::Seconds(7))
    EXPECT_LE(KafkaMessageTimeout(t) + absl::Milliseconds(1500), t);
}

}  // namespace cluster_config_test
}  // namespace escapement::handler
