#include <memory>
#include <thread>
#include <vector>

#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/delivery_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"

namespace escapement::handler {
namespace secret_redaction_test {

using fixtures::CollectingSink;

std::string Redacted(const std::vector<std::string>& secrets, std::string text) {
  Redact(SecretParts(secrets), &text);
  return text;
}

TEST(SecretRedactionTest, TheSecretAndItsLongPartsAreReplaced) {
  EXPECT_EQ(Redacted({"Bearer abcdef123"}, "you, Bearer, sent Bearer abcdef123, and abcdef123"),
            "you, Bearer, sent (secret), and (secret)");
  EXPECT_EQ(Redacted({"AKID:secret/part+of"}, "AKID: secret/part+of is no such secret"),
            "AKID: (secret) is no such secret");
  EXPECT_EQ(Redacted({"whsec_MfKQ9r8GKYqr"}, "MfKQ9r8GKYqr signs"), "(secret) signs");
  EXPECT_EQ(Redacted({"https://hooks.slack.com/services/T0/B0/0123456789abcdef"},
                     "hooks.slack.com: no /services/T0/B0/0123456789abcdef; 0123456789abcdef?"),
            "hooks.slack.com: no (secret); (secret)?");
  EXPECT_EQ(Redacted({"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END PRIVATE KEY-----\n"},
                     "-----BEGIN PRIVATE KEY----- MIIEvQIBADAN"),
            "-----BEGIN PRIVATE KEY----- (secret)");
  EXPECT_EQ(Redacted({"pw"}, "the pw was pw"), "the (secret) was (secret)");
  EXPECT_EQ(Redacted({"hunter22"}, "nothing to see"), "nothing to see");
  EXPECT_EQ(Redacted({}, "text"), "text");
}

TEST(SecretRedactionTest, ATextThatEndsWithinASecretEndsBeforeIt) {
  EXPECT_EQ(Redacted({"abcdefghijkl"}, "got abcdefghij"), "got (secret)");
  EXPECT_EQ(Redacted({"abcdefghijkl"}, "got abcdefg"), "got abcdefg");
}

TEST(SecretRedactionTest, OnlyTargetsWithSecretsHaveAnotherSink) {
  const auto sink = std::make_shared<CollectingSink>();
  storage::v1::TargetRecord target;
  target.mutable_http()->set_uri("http://h/");
  EXPECT_EQ(RedactingSink(fixtures::MakeAttemptsTo(target, {}, 1, 1), sink), sink);
  storage::v1::SecretHeaderRecord& header = *target.mutable_http()->add_secret_headers();
  header.set_name("Authorization");
  header.set_value("Bearer abcdef123");
  const auto redacting = RedactingSink(fixtures::MakeAttemptsTo(target, {}, 1, 1), sink);
  ASSERT_NE(redacting, sink);
  redacting->OnResult(1, {.status = DeliveryStatus::kFailed,
                          .message = "HTTP 401: abcdef123",
                          .answer = "Authorization: Bearer abcdef123"});
  EXPECT_EQ(sink->Only(1).message, "HTTP 401: (secret)");
  EXPECT_EQ(sink->Only(1).answer, "Authorization: (secret)");
}

TEST(SecretRedactionTest, ResultsThatComeTogetherAreRedacted) {
  storage::v1::TargetRecord target;
  target.mutable_slack()->set_webhook_url("a-secret-of-some-length");
  const auto sink = std::make_shared<CollectingSink>();
  const auto attempts = fixtures::MakeAttemptsTo(target, {}, 1, 2);
  const std::string text = "no a-secret-of-some-length";
  RedactingSink(attempts, sink)
      ->OnResults({{.tag = 1, .result = {.status = DeliveryStatus::kFailed, .message = text}},
                   {.tag = 2,
                    .result = {.status = DeliveryStatus::kFailed, .message = "", .answer = text}}});
  EXPECT_EQ(sink->Only(1).message, "no (secret)");
  EXPECT_EQ(sink->Only(2).answer, "no (secret)");
}

TEST(SecretRedactionTest, SecretsAreLookedUpOnceAtTheFirstText) {
  // It changes here only to show when it is read.
  const auto definition = std::make_shared<storage::v1::DefinitionRecord>();
  storage::v1::SlackTargetRecord& slack =
      *definition->mutable_delivery()->mutable_target()->mutable_slack();
  const auto context = std::make_shared<DeliveryContext>();
  context->definition = definition;
  std::vector<DeliveryAttempt> attempts(2);
  for (DeliveryAttempt& attempt : attempts) attempt.context = context;
  const auto sink = std::make_shared<CollectingSink>();
  slack.set_webhook_url("the-first-secret");
  const auto redacting = RedactingSink(attempts, sink);
  redacting->OnResult(1, {.status = DeliveryStatus::kAccepted, .message = ""});
  slack.set_webhook_url("the-second-secret");
  redacting->OnResult(2, {.status = DeliveryStatus::kFailed, .message = "the-second-secret"});
  slack.set_webhook_url("the-third-secret");
  redacting->OnResult(3, {.status = DeliveryStatus::kFailed, .message = "the-second-secret"});
  EXPECT_EQ(sink->Only(2).message, "(secret)");
  EXPECT_EQ(sink->Only(3).message, "(secret)");
}

TEST(SecretRedactionTest, ResultsOfManyThreadsAreRedacted) {
  storage::v1::TargetRecord target;
  target.mutable_slack()->set_webhook_url("a-secret-of-some-length");
  const auto sink = std::make_shared<CollectingSink>();
  const auto redacting = RedactingSink(fixtures::MakeAttemptsTo(target, {}, 1, 8), sink);
  std::vector<std::thread> threads;
  for (uint64_t tag = 1; tag <= 8; ++tag) {
    threads.emplace_back([&redacting, tag] {
      redacting->OnResult(
          tag, {.status = DeliveryStatus::kFailed, .message = "no a-secret-of-some-length"});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t tag = 1; tag <= 8; ++tag) EXPECT_EQ(sink->Only(tag).message, "no (secret)");
}

// Sets each field of the records of targets that is sealed, one at a time.
TEST(SecretRedactionTest, EverySealedFieldOfEveryKindIsRedacted) {
  const auto sink = std::make_shared<CollectingSink>();
  int fields = 0;
  const auto expect = [&](const storage::v1::TargetRecord& target) {
    ++fields;
    const auto redacting = RedactingSink(fixtures::MakeAttemptsTo(target, {}, 1, 1), sink);
    EXPECT_NE(redacting, sink) << target.ShortDebugString();
  };
  const auto sealed = [](const google::protobuf::FieldDescriptor& field) {
    return field.options().GetExtension(storage::v1::sealed);
  };
  const auto* kinds = storage::v1::TargetRecord::descriptor();
  for (int k = 0; k < kinds->field_count(); ++k) {
    const auto* kind = kinds->field(k)->message_type();
    if (kind == nullptr) continue;
    for (int f = 0; f < kind->field_count(); ++f) {
      const auto* field = kind->field(f);
      storage::v1::TargetRecord target;
      auto* record = target.GetReflection()->MutableMessage(&target, kinds->field(k));
      const auto* reflection = record->GetReflection();
      if (sealed(*field)) {
        field->is_repeated() ? reflection->AddString(record, field, "a-secret-of-some-length")
                             : reflection->SetString(record, field, "a-secret-of-some-length");
        expect(target);
      }
      if (field->message_type() == nullptr || field->is_map()) continue;
      for (int i = 0; i < field->message_type()->field_count(); ++i) {
        const auto* inner = field->message_type()->field(i);
        if (!sealed(*inner)) continue;
        auto* part = field->is_repeated() ? reflection->AddMessage(record, field)
                                          : reflection->MutableMessage(record, field);
        part->GetReflection()->SetString(part, inner, "a-secret-of-some-length");
        expect(target);
      }
    }
  }
  EXPECT_GE(fields, 10);
}

}  // namespace secret_redaction_test
}  // namespace escapement::handler
