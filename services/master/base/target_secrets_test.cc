#include "services/master/base/target_secrets.h"

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/secrets/record_secrets.h"
#include "common/secrets/sealed_value.h"
#include "gtest/gtest.h"
#include "services/master/codec/target_codec.h"

namespace escapement::master {
namespace target_secrets_test {

using storage::v1::TargetRecord;

constexpr char kHook[] = "slack { webhook_url: 'https://hooks.example/canary' }";

std::shared_ptr<const Sealer> Keys() {
  return std::make_shared<const Sealer>(*KeyRing::Parse(
      absl::StrCat("k1: ", absl::Base64Escape(std::string(kSealingKeyBytes, 'a'))), "keys"));
}

v1::Target Parse(const std::string& text) {
  v1::Target target;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &target)) << text;
  return target;
}

struct Stored {
  TargetRecord record;
  v1::Target shown;
  std::string wrong;  // the errors
};

Stored Store(const TargetSecrets& secrets, const v1::Target& target,
             const TargetRecord* before = nullptr, absl::string_view tenant = "a") {
  FieldViolations violations;
  Stored stored;
  stored.record = ReadTarget(target, "t", violations);
  EXPECT_TRUE(violations.empty()) << violations.ToStatus();
  secrets.Seal(tenant, "t", before, stored.record, violations);
  stored.wrong = violations.ToStatus().ToString();
  if (violations.empty()) stored.wrong.clear();
  WriteTarget(stored.record, stored.shown);
  return stored;
}

TEST(TargetSecrets, NeitherTheRecordNorTheAnswerHasTheSecret) {
  const TargetSecrets secrets(Keys());
  const Stored stored =
      Store(secrets,
            Parse("http { uri: 'https://a' secret_headers { key: 'Authorization' value: 'canary' "
                  "} signing_secrets: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }"));
  EXPECT_EQ(stored.wrong, "");
  EXPECT_FALSE(absl::StrContains(stored.record.SerializeAsString(), "canary"));
  EXPECT_FALSE(absl::StrContains(stored.record.SerializeAsString(), "MfKQ9"));
  EXPECT_TRUE(IsSecretPlaceholder(stored.shown.http().secret_headers().at("Authorization")));
  EXPECT_TRUE(IsSecretPlaceholder(stored.shown.http().signing_secrets(0)));
  TargetRecord opened = stored.record;
  ASSERT_TRUE(OpenSecrets(*Keys(), opened.tenant(), opened).ok());
  EXPECT_EQ(opened.http().secret_headers(0).value(), "canary");
}

TEST(TargetSecrets, PlaceholdersKeepSecretsInAnUpdate) {
  const TargetSecrets secrets(Keys());
  const Stored first = Store(secrets, Parse(kHook));
  v1::Target again = first.shown;
  again.mutable_slack()->set_text("other");
  const Stored second = Store(secrets, again, &first.record);
  EXPECT_EQ(second.wrong, "");
  EXPECT_EQ(second.record.slack().webhook_url(), first.record.slack().webhook_url());
  EXPECT_EQ(second.record.slack().text(), "other");
}

TEST(TargetSecrets, OldAndNewSecretsStandTogetherWhileAConsumerChangesOver) {
  const TargetSecrets secrets(Keys());
  const Stored first = Store(
      secrets,
      Parse("http { uri: 'https://a/1' signing_secrets: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' "
            "}"));
  v1::Target both = first.shown;
  both.mutable_http()->set_uri("https://a/2");
  both.mutable_http()->add_signing_secrets("whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  const Stored second = Store(secrets, both, &first.record);
  EXPECT_EQ(second.wrong, "");
  ASSERT_EQ(second.record.http().signing_secrets_size(), 2);
  EXPECT_EQ(second.record.http().signing_secrets(0), first.record.http().signing_secrets(0));
  EXPECT_NE(second.shown.http().signing_secrets(0), second.shown.http().signing_secrets(1));
}

// An editor of a target must not learn its secrets by sending them to another host.
TEST(TargetSecrets, APlaceholderIsRefusedIfTheTargetGoesElsewhere) {
  const TargetSecrets secrets(Keys());
  const Stored first = Store(
      secrets,
      Parse("http { uri: 'https://a' secret_headers { key: 'Authorization' value: 'canary' } }"));
  v1::Target moved = first.shown;
  moved.mutable_http()->set_uri("https://evil");
  EXPECT_TRUE(absl::StrContains(Store(secrets, moved, &first.record).wrong, "placeholder"));
}

TEST(TargetSecrets, APlaceholderIsRefusedWhereItStandsForNothing) {
  const TargetSecrets secrets(Keys());
  const Stored first = Store(secrets, Parse(kHook));
  EXPECT_TRUE(absl::StrContains(Store(secrets, first.shown).wrong, "placeholder"));
  const Stored other = Store(secrets, Parse("slack { webhook_url: 'https://hooks.example/b' }"));
  EXPECT_TRUE(absl::StrContains(Store(secrets, first.shown, &other.record).wrong, "placeholder"));
}

TEST(TargetSecrets, TenantsHaveOtherValuesForTheSameSecret) {
  const TargetSecrets secrets(Keys());
  EXPECT_NE(Store(secrets, Parse(kHook)).record.slack().webhook_url(),
            Store(secrets, Parse(kHook), nullptr, "b").record.slack().webhook_url());
  EXPECT_EQ(Store(secrets, Parse(kHook)).record.SerializeAsString(),
            Store(secrets, Parse(kHook)).record.SerializeAsString());
}

TEST(TargetSecrets, WithoutKeysSecretsAreRefusedAndOtherTargetsAreNot) {
  const TargetSecrets none(nullptr);
  const Stored refused = Store(none, Parse(kHook));
  EXPECT_TRUE(absl::StrContains(refused.wrong, "--secret_keys_file")) << refused.wrong;
  EXPECT_FALSE(absl::StrContains(refused.wrong, "canary"));
  const Stored plain = Store(none, Parse("ping { uri: 'https://a' }"));
  EXPECT_EQ(plain.wrong, "");
  EXPECT_EQ(plain.record.tenant(), "");
}

}  // namespace target_secrets_test
}  // namespace escapement::master
