#include "common/secrets/record_secrets.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/secrets/sealed_value.h"
#include "escapement/storage/v1/records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace record_secrets_test {

using storage::v1::DefinitionRecord;
using ::testing::ElementsAre;

Sealer SealerOf(char fill) {
  return Sealer(*KeyRing::Parse(
      absl::StrCat("k1: ", absl::Base64Escape(std::string(kSealingKeyBytes, fill))), "keys"));
}

DefinitionRecord Definition() {
  DefinitionRecord record;
  auto* http = record.mutable_delivery()->mutable_target()->mutable_http();
  http->set_uri("https://a.example");
  http->add_signing_secrets("canary-1");
  http->add_signing_secrets("canary-2");
  auto* header = http->add_secret_headers();
  header->set_name("Authorization");
  header->set_value("canary-3");
  http->mutable_tls()->set_client_key("canary-4");
  record.mutable_on_complete()->mutable_target()->mutable_slack()->set_webhook_url("canary-5");
  return record;
}

absl::Status Seal(const Sealer& sealer, absl::string_view tenant, DefinitionRecord& record) {
  return VisitSecrets(record, [&](RecordSecret& secret) {
    secret.value = *sealer.Seal(SecretText(secret.value), SecretPlace(tenant, secret));
    return absl::OkStatus();
  });
}

TEST(RecordSecrets, FindsEachSecretWithItsPath) {
  std::vector<std::string> found;
  for (const RecordSecret& secret : SecretsOf(Definition()))
    found.push_back(absl::StrCat(secret.path, " ", secret.value));
  EXPECT_THAT(found, ElementsAre("delivery.target.http.signing_secrets[0] canary-1",
                                 "delivery.target.http.signing_secrets[1] canary-2",
                                 "delivery.target.http.secret_headers[0].value canary-3",
                                 "delivery.target.http.tls.client_key canary-4",
                                 "on_complete.target.slack.webhook_url canary-5"));
}

TEST(RecordSecrets, SealedRecordsHideTheirSecretsAndOpenForTheirTenantOnly) {
  const Sealer sealer = SealerOf('a');
  DefinitionRecord record = Definition();
  ASSERT_TRUE(Seal(sealer, "a", record).ok());
  EXPECT_FALSE(absl::StrContains(record.SerializeAsString(), "canary"));
  DefinitionRecord copy = record;
  EXPECT_FALSE(OpenSecrets(sealer, "b", copy).ok());
  EXPECT_FALSE(OpenSecrets(SealerOf('b'), "a", copy).ok());
  ASSERT_TRUE(OpenSecrets(sealer, "a", record).ok());
  EXPECT_EQ(record.SerializeAsString(), Definition().SerializeAsString());
}

TEST(RecordSecrets, ASecretDoesNotOpenInAnotherField) {
  const Sealer sealer = SealerOf('a');
  DefinitionRecord record = Definition();
  ASSERT_TRUE(Seal(sealer, "a", record).ok());
  auto* target = record.mutable_on_complete()->mutable_target();
  const std::string sealed = target->slack().webhook_url();
  target->mutable_email()->set_password(sealed);
  EXPECT_TRUE(absl::IsDataLoss(OpenSecrets(sealer, "a", record)));
}

TEST(RecordSecrets, PlaceholdersTellSecretsApart) {
  const Sealer sealer = SealerOf('a');
  const std::string one = SecretPlaceholder(*sealer.Seal(SecretText("one"), "p"));
  EXPECT_EQ(one.size(), 7 + 12u);
  EXPECT_EQ(one, SecretPlaceholder(*sealer.Seal(SecretText("one"), "p")));
  EXPECT_NE(one, SecretPlaceholder(*sealer.Seal(SecretText("two"), "p")));
  EXPECT_TRUE(IsSecretPlaceholder(one));
  EXPECT_FALSE(IsSecretPlaceholder("whsec_c2VhbGVk"));
}

TEST(RecordSecrets, ARecordWithoutSecretsIsLeftAlone) {
  DefinitionRecord record;
  record.mutable_delivery()->mutable_target()->mutable_grpc()->set_uri("a:1");
  const std::string before = record.SerializeAsString();
  EXPECT_TRUE(OpenSecrets(SealerOf('a'), "a", record).ok());
  EXPECT_EQ(record.SerializeAsString(), before);
}

}  // namespace record_secrets_test
}  // namespace escapement
