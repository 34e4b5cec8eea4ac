#include "services/master/codec/target_codec.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace target_codec_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Target Parse(const std::string& text) {
  v1::Target target;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &target)) << text;
  return target;
}

// The fields that are wrong.
std::vector<std::string> Wrong(const v1::Target& target) {
  FieldViolations violations;
  ReadTarget(target, "t", violations);
  std::vector<std::string> fields;
  for (auto& [field, description] : FieldViolationsOf(violations.ToStatus()))
    fields.push_back(std::move(field));
  return fields;
}
std::vector<std::string> Wrong(const std::string& text) { return Wrong(Parse(text)); }

// The target as it is shown after it was stored. It must have no secrets.
std::string Shown(const std::string& text) {
  FieldViolations violations;
  const storage::v1::TargetRecord record = ReadTarget(Parse(text), "t", violations);
  EXPECT_TRUE(violations.empty()) << violations.ToStatus();
  v1::Target shown;
  WriteTarget(record, shown);
  return shown.ShortDebugString();
}

TEST(TargetCodec, EachKindOfTargetIsReadAndWritten) {
  const auto* kinds = v1::Target::descriptor()->FindOneofByName("kind");
  const auto* record_kinds = storage::v1::TargetRecord::descriptor()->FindOneofByName("kind");
  ASSERT_EQ(kinds->field_count(), record_kinds->field_count());
  for (int i = 0; i < kinds->field_count(); ++i) {
    v1::Target target;
    target.GetReflection()->MutableMessage(&target, kinds->field(i));
    FieldViolations violations;
    const storage::v1::TargetRecord record = ReadTarget(target, "target", violations);
    EXPECT_FALSE(violations.empty()) << kinds->field(i)->name();
    const auto* kind = record.GetReflection()->GetOneofFieldDescriptor(record, record_kinds);
    ASSERT_NE(kind, nullptr) << kinds->field(i)->name();
    EXPECT_EQ(kind->name(), kinds->field(i)->name());
    v1::Target shown;
    WriteTarget(record, shown);
    EXPECT_EQ(shown.kind_case(), target.kind_case());
  }
}

TEST(TargetCodec, ATargetWithoutKindIsRefusedWithTheKindsToSet) {
  FieldViolations violations;
  ReadTarget({}, "target", violations);
  EXPECT_EQ(
      FieldViolationsOf(violations.ToStatus()),
      (std::vector<std::pair<std::string, std::string>>{
          {"target", "is required: set http or grpc or sqs or kafka or slack or email or ping"}}));
}

TEST(TargetCodec, DefaultsAreShown) {
  EXPECT_EQ(Shown("http { uri: 'https://a/b' }"),
            Parse("http { uri: 'https://a/b' method: 'POST' }").ShortDebugString());
  EXPECT_EQ(Shown("sqs { queue_url: 'https://sqs.eu-central-1.amazonaws.com/1/q' }"),
            Parse("sqs { queue_url: 'https://sqs.eu-central-1.amazonaws.com/1/q' "
                  "region: 'eu-central-1' endpoint: 'https://sqs.eu-central-1.amazonaws.com' }")
                .ShortDebugString());
  EXPECT_EQ(Shown("email { smtp_uri: 'smtp://mail' from: 'jürgen@bücher.example' to: 'c@d' "
                  "subject: 's' text: 't' }"),
            Parse("email { smtp_uri: 'smtp://mail' from: 'jürgen@bücher.example' to: 'c@d' "
                  "subject: 's' text: 't' }")
                .ShortDebugString());
  EXPECT_EQ(Shown("email { smtp_uri: 'smtp://mail/' from: 'a@b' to: 'c@d' }"),
            Parse("email { smtp_uri: 'smtp://mail' from: 'a@b' to: 'c@d' subject: '{{source}}' "
                  "text: '{{payload}}' }")
                .ShortDebugString());
}

TEST(TargetCodec, EverySettingIsKept) {
  for (const std::string text :
       {"grpc { uri: 'a:1' tls { } }",
        "sqs { queue_url: 'http://h:1/1/q.fifo' region: 'r-1' endpoint: 'http://h:2' "
        "message_group_id: 'g' }",
        "kafka { brokers: 'a:1,[::1]:2' topic: 'a.b_c-D' key: 'k' tls { } }",
        "email { smtp_uri: 'smtp://mail:25' from: 'a@b' to: 'c@d' to: 'e@f' subject: 's' text: 't' "
        "tls { } plaintext: true }",
        "ping { uri: 'https://a/b' }", "ping { uri: 'heartbeat:' }"}) {
    EXPECT_EQ(Shown(text), Parse(text).ShortDebugString());
  }
}

TEST(TargetCodec, WrongFieldsAreNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {"http { uri: 'ftp://a' }", "t.http.uri"},
      {"http { uri: 'http://a' method: 'GET' }", "t.http.method"},
      {"http { uri: 'http://a' signing_secrets: 'x' }", "t.http.signing_secrets[0]"},
      {"http { uri: 'http://a' headers { key: 'Cookie' value: 'x' } }", "t.http.headers[Cookie]"},
      {"http { uri: 'http://a' secret_headers { key: 'Host' value: 'x' } }",
       "t.http.secret_headers[Host]"},
      {"http { uri: 'http://a' headers { key: 'x-a' value: 'x' } "
       "secret_headers { key: 'X-A' value: 'x' } }",
       "t.http.secret_headers[X-A]"},
      {"http { uri: 'https://a' tls { ca_certificates: 'x' } }", "t.http.tls.ca_certificates"},
      {"http { uri: 'https://a' tls { client_certificate: 'x' } }",
       "t.http.tls.client_certificate"},
      {"http { uri: 'https://a' tls { client_certificate: 'x' client_key: 'y' } }",
       "t.http.tls.client_certificate"},
      {"grpc { uri: 'unix:/tmp/a' }", "t.grpc.uri"},
      {"sqs { queue_url: 'https://h/1/q' }", "t.sqs.region"},
      {"sqs { queue_url: 'https://sqs.a.b.amazonaws.com/1/q' }", "t.sqs.region"},
      {"sqs { queue_url: 'https://h/1/q' region: 'a b' }", "t.sqs.region"},
      {"sqs { queue_url: 'https://h/1/q?x' region: 'a' }", "t.sqs.queue_url"},
      {"sqs { queue_url: 'https://h/1/q' region: 'a' endpoint: 'https://h/x' }", "t.sqs.endpoint"},
      {"sqs { queue_url: 'https://h/1/q' region: 'a' credentials: 'x' }", "t.sqs.credentials"},
      {"sqs { queue_url: 'https://h/1/q' region: 'a' credentials: 'a:b\\r\\nc' }",
       "t.sqs.credentials"},
      {"sqs { queue_url: 'https://h/1/q' region: 'a' message_group_id: 'g' }",
       "t.sqs.message_group_id"},
      {"kafka { brokers: 'a' topic: 't' }", "t.kafka.brokers"},
      {"kafka { brokers: 'a:1,' topic: 't' }", "t.kafka.brokers"},
      {"kafka { brokers: 'file:///a:1' topic: 't' }", "t.kafka.brokers"},
      {"kafka { brokers: 'a:1' topic: '..' }", "t.kafka.topic"},
      {"kafka { brokers: 'a:1' topic: 'a/b' }", "t.kafka.topic"},
      {"kafka { brokers: 'a:1' topic: 't' sasl { mechanism: 'PLAIN' username: 'u' password: 'p' } "
       "}",
       "t.kafka.sasl.mechanism"},
      {"kafka { brokers: 'a:1' topic: 't' sasl { mechanism: 'GSSAPI' username: 'u' password: 'p' } "
       "}",
       "t.kafka.sasl.mechanism"},
      {"kafka { brokers: 'a:1' topic: 't' sasl { mechanism: 'SCRAM-SHA-256' username: 'u' } }",
       "t.kafka.sasl.password"},
      {"slack { webhook_url: 'x' }", "t.slack.webhook_url"},
      {"slack { webhook_url: 'https://h/x' text: '{{nobody}}' }", "t.slack.text"},
      {"email { smtp_uri: 'http://m' from: 'a@b' to: 'c@d' }", "t.email.smtp_uri"},
      {"email { smtp_uri: 'smtp://u:p@m' from: 'a@b' to: 'c@d' }", "t.email.smtp_uri"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b\\r\\nBcc: x@y' to: 'c@d' }", "t.email.from"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b' }", "t.email.to"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b' to: 'c@d' to: 'x@y> SIZE=1' }", "t.email.to[1]"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b' to: 'c@d' subject: 'a\\r\\nBcc: x@y' }",
       "t.email.subject"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b' to: 'c@d' text: '{{' }", "t.email.text"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b' to: 'c@d' username: 'u' }", "t.email.password"},
      {"email { smtp_uri: 'smtp://m' from: 'a@b' to: 'c@d' username: 'u' password: 'p' "
       "plaintext: true }",
       "t.email.plaintext"},
      {"ping { uri: 'gopher://a' }", "t.ping.uri"},
      {"ping { uri: 'heartbeat:a' }", "t.ping.uri"},
      {"http { uri: 'heartbeat:' }", "t.http.uri"},
  };
  for (const auto& [text, field] : kCases) EXPECT_THAT(Wrong(text), ElementsAre(field)) << text;
}

TEST(TargetCodec, SecretsAreNeverQuoted) {
  v1::Target target = Parse("sqs { queue_url: 'https://h/1/q' region: 'a' credentials: 'canary' }");
  FieldViolations violations;
  ReadTarget(target, "t", violations);
  target = Parse("slack { webhook_url: 'canary' }");
  ReadTarget(target, "t", violations);
  target = Parse(
      "http { uri: 'http://a' signing_secrets: 'canary' tls { client_certificate: 'x' "
      "client_key: 'canary' } secret_headers { key: 'a' value: 'canary\r' } }");
  ReadTarget(target, "t", violations);
  EXPECT_THAT(violations.ToStatus().ToString(), ::testing::Not(::testing::HasSubstr("canary")));
}

TEST(TargetCodec, BoundsAreKept) {
  v1::Target target = Parse("http { uri: 'https://a' }");
  for (int i = 0; i < 5; ++i)
    target.mutable_http()->add_signing_secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  EXPECT_THAT(Wrong(target), ElementsAre("t.http.signing_secrets"));
  target.mutable_http()->mutable_signing_secrets()->RemoveLast();
  EXPECT_THAT(Wrong(target), IsEmpty());
  for (int i = 0; i < 33; ++i)
    (*target.mutable_http()->mutable_secret_headers())[absl::StrCat("x-", i)] = "v";
  EXPECT_THAT(Wrong(target), ElementsAre("t.http.headers"));
  target = Parse("email { smtp_uri: 'smtp://m' from: 'a@b' }");
  for (int i = 0; i < 51; ++i) target.mutable_email()->add_to("a@b");
  EXPECT_THAT(Wrong(target), ElementsAre("t.email.to"));
}

}  // namespace target_codec_test
}  // namespace escapement::master
