#include "common/kafka/client.h"

#include <string>
#include <vector>

#include "common/kafka/client_properties.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

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

TEST(KafkaClientTest, BadCertificateIsInvalid) {
  std::vector<KafkaProperty> properties;
  KafkaAccess access{.brokers = "127.0.0.1:1"};
  access.tls.emplace().ca_certificates = "no certificate";
  ASSERT_TRUE(AddAccessProperties(access, "the target", properties).ok());
  const auto client = NewKafkaClient(RD_KAFKA_CONSUMER, properties, "", [](rd_kafka_conf_t*) {});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << client.status();
}

}  // namespace
}  // namespace escapement
