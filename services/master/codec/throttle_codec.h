// How the events of a schedule are throttled: policy, window and completion ↔ ThrottleRecord, with
// validation. Pure.

#ifndef SERVICES_MASTER_CODEC_THROTTLE_CODEC_H_
#define SERVICES_MASTER_CODEC_THROTTLE_CODEC_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

// Reads policy, window and completion. Unset if events go out as they fall due: no policy, no
// window, and complete on delivery. Adds each error to `violations` ("schedule.window.duration").
// The policy must belong to `tenant`.
std::optional<storage::v1::ThrottleRecord> ReadThrottle(const v1::Schedule& schedule,
                                                        absl::string_view tenant,
                                                        FieldViolations& violations);

// Writes policy, window and completion (which is always shown).
void WriteThrottle(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule);

// Clears the completion of a shown schedule if it is what its policy makes the default: then the
// default of the policy that it gets applies.
void ForgetDefaultCompletion(v1::Schedule& schedule);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_THROTTLE_CODEC_H_
