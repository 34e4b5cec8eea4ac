// TargetSecrets: seals the secrets of a target before it is stored.
//
// Threads: any; immutable.

#ifndef SERVICES_MASTER_BASE_TARGET_SECRETS_H_
#define SERVICES_MASTER_BASE_TARGET_SECRETS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/secrets/sealed_value.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::master {

class TargetSecrets {
 public:
  // Null: the installation has no keys, and every secret is a violation.
  explicit TargetSecrets(std::shared_ptr<const Sealer> sealer) : sealer_(std::move(sealer)) {}

  // Seals the secrets in clear. Replaces placeholders by the secrets of `before` (null: a new
  // target) that they stand for, if both targets have the same key (common/records/row_judge.h):
  // else whoever may edit a target could have its secrets sent elsewhere. `field`: the target's
  // path in the request, e.g. "schedule.target".
  void Seal(absl::string_view tenant, absl::string_view field,
            const storage::v1::TargetRecord* before, storage::v1::TargetRecord& record,
            FieldViolations& violations) const;

 private:
  const std::shared_ptr<const Sealer> sealer_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_BASE_TARGET_SECRETS_H_
