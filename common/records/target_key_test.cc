#include <google/protobuf/text_format.h>

#include <string>

#include "common/records/row_judge.h"
#include "gtest/gtest.h"

namespace escapement {
namespace target_key_test {

std::string KeyOf(const std::string& text) {
  storage::v1::TargetRecord target;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &target)) << text;
  return TargetKeyOf(target);
}

TEST(TargetKey, NamesTheKindAndWhereItGoes) {
  EXPECT_EQ(KeyOf("http { uri: 'https://host:1/a?b' }"), "http:https://host:1");
  EXPECT_EQ(KeyOf("ping { uri: 'http://host/a' }"), "ping:http://host");
  EXPECT_EQ(KeyOf("ping { uri: 'heartbeat:' }"), "ping:heartbeat:");
  EXPECT_EQ(KeyOf("grpc { uri: 'dns:///host:1' }"), "grpc:dns:///host:1");
  EXPECT_EQ(KeyOf("kafka { brokers: 'a:1,b:2' topic: 't' }"), "kafka:a:1,b:2/t");
  EXPECT_EQ(KeyOf("email { smtp_uri: 'smtp://mail:25' }"), "email:smtp://mail:25");
  EXPECT_EQ(KeyOf("sqs { queue_url: 'https://a/1/q' endpoint: 'https://a' }"), "sqs:https://a/1/q");
  EXPECT_EQ(KeyOf("sqs { queue_url: 'https://a/1/q' endpoint: 'http://b:1' }"),
            "sqs:http://b:1#https://a/1/q");
  EXPECT_EQ(KeyOf(""), "http:");
}

TEST(TargetKey, HasNoSecret) {
  EXPECT_EQ(KeyOf("slack { webhook_url: 'https://hooks.example/canary' }"),
            "slack:https://hooks.example");
  EXPECT_EQ(KeyOf("slack { webhook_url: '\\001sealed' }"), "slack:");
}

TEST(TargetKey, GrpcTargetsWithOtherCertificatesShareNothing) {
  const std::string plain = KeyOf("grpc { uri: 'h:1' }");
  const std::string system = KeyOf("grpc { uri: 'h:1' tls {} }");
  const std::string own = KeyOf("grpc { uri: 'h:1' tls { ca_certificates: 'x' } }");
  EXPECT_NE(plain, system);
  EXPECT_NE(system, own);
  EXPECT_EQ(own, KeyOf("grpc { uri: 'h:1' tls { ca_certificates: 'x' client_key: 'y' } }"));
}

}  // namespace target_key_test
}  // namespace escapement
