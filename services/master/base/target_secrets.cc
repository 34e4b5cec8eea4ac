#include "services/master/base/target_secrets.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/records/row_judge.h"
#include "common/secrets/record_secrets.h"
#include "common/secrets/secret_text.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kNoKeys =
    "is a secret, which this installation cannot keep: its operator must set --secret_keys_file";

// The secrets that placeholders may stand for.
std::vector<RecordSecret> FormerSecrets(const storage::v1::TargetRecord* before,
                                        const storage::v1::TargetRecord& record) {
  if (before == nullptr || TargetKeyOf(*before) != TargetKeyOf(record)) return {};
  return SecretsOf(*before);
}

}  // namespace

void TargetSecrets::Seal(absl::string_view tenant, absl::string_view field,
                         const storage::v1::TargetRecord* before, storage::v1::TargetRecord& record,
                         FieldViolations& violations) const {
  std::vector<RecordSecret> former;
  bool former_read = false;
  const auto seal = [&](RecordSecret& secret) {
    record.set_tenant(std::string(tenant));
    const std::string path = absl::StrCat(field, ".", secret.path);
    if (!IsSecretPlaceholder(secret.value)) {
      if (sealer_ == nullptr) {
        violations.Add(path, kNoKeys);
        return absl::OkStatus();
      }
      auto sealed = sealer_->Seal(SecretText(secret.value), SecretPlace(tenant, secret));
      if (!sealed.ok()) violations.Add(path, sealed.status().message());
      WipeText(secret.value);
      if (sealed.ok()) secret.value = *std::move(sealed);
      return absl::OkStatus();
    }
    if (!std::exchange(former_read, true)) former = FormerSecrets(before, record);
    for (const RecordSecret& known : former) {
      if (known.field != secret.field || SecretPlaceholder(known.value) != secret.value) continue;
      secret.value = known.value;
      return absl::OkStatus();
    }
    violations.Add(path,
                   "is a placeholder, but the target has no such secret, or it goes elsewhere now: "
                   "give the secret itself");
    return absl::OkStatus();
  };
  VisitSecrets(record, seal).IgnoreError();  // `seal` has no errors
}

}  // namespace escapement::master
