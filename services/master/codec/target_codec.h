// Where events go: Target ↔ TargetRecord, with validation (target_kinds.h has the kinds). Pure.

#ifndef SERVICES_MASTER_CODEC_TARGET_CODEC_H_
#define SERVICES_MASTER_CODEC_TARGET_CODEC_H_

#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

// Adds what is wrong to `violations`, with fields below `field` ("schedule.target"). The secrets of
// the record are not sealed yet: TargetSecrets::Seal must follow before it is stored or shown.
storage::v1::TargetRecord ReadTarget(const v1::Target& target, absl::string_view field,
                                     FieldViolations& violations);

void WriteTarget(const storage::v1::TargetRecord& record, v1::Target& target);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_TARGET_CODEC_H_
