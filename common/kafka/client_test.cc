#include "common/kafka/client.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace client_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(KafkaClientTest, PasswordIsCutOutOfTexts) {
  EXPECT_EQ(KafkaErrorText("user robot, password hunter2: no", "hunter2"),
            "user robot, password ***: no");
  EXPECT_EQ(KafkaErrorText("text", ""), "text");
  EXPECT_EQ(KafkaErrorText("no\nhunter2", "hunter2"), "no ***");
}

TEST(KafkaClientTest, RefusedPropertyIsNamedWithoutItsValue) {
  const auto client = NewKafkaClient(RD_KAFKA_CONSUMER, {{"sasl.mechanisms", "SECRET, other"}}, "",
                                     [](rd_kafka_conf_t*) {});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().message(), "librdkafka refuses sasl.mechanisms");
  EXPECT_THAT(client.status().ToString(), Not(HasSubstr("SECRET")));
}

TEST(KafkaClientTest, OwnPropertiesAndThoseOfTheConnectionsReachTheClient) {
  const auto properties =
      KafkaClientProperties({{"linger.ms", "7"}}, {.connect_timeout = absl::Seconds(3)},
                            {.brokers = "127.0.0.1:1"}, "the target");
  ASSERT_TRUE(properties.ok()) << properties.status();
  const auto client = NewKafkaClient(RD_KAFKA_PRODUCER, *properties, "", [](rd_kafka_conf_t*) {});
  ASSERT_TRUE(client.ok()) << client.status();
  const rd_kafka_conf_t* const conf = rd_kafka_conf(*client);
  for (const auto& [name, expected] :
       std::map<std::string, std::string>{{"client.id", "escapement"},
                                          {"linger.ms", "7"},
                                          {"socket.connection.setup.timeout.ms", "3000"},
                                          {"socket.keepalive.enable", "true"},
                                          {"socket.nagle.disable", "true"},
                                          {"reconnect.backoff.ms", "100"},
                                          {"reconnect.backoff.max.ms", "2000"},
                                          {"topic.metadata.refresh.interval.ms", "30000"},
                                          {"log.connection.close", "false"},
                                          {"security.protocol", "plaintext"}}) {
    char value[256] = {};
    size_t size = sizeof(value);
    ASSERT_EQ(rd_kafka_conf_get(conf, name.c_str(), value, &size), RD_KAFKA_CONF_OK) << name;
    EXPECT_EQ(value, expected) << name;
  }
  rd_kafka_destroy(*client);
}

TEST(KafkaClientTest, BadCertificateIsInvalid) {
  KafkaAccess access{.brokers = "127.0.0.1:1"};
  access.tls.emplace().ca_certificates = "no certificate";
  const auto properties = KafkaClientProperties({}, {}, access, "the target");
  ASSERT_TRUE(properties.ok()) << properties.status();
  const auto client = NewKafkaClient(RD_KAFKA_CONSUMER, *properties, "", [](rd_kafka_conf_t*) {});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << client.status();
}

}  // namespace client_test
}  // namespace escapement
