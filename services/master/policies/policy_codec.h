// The `filter` of ListPolicies: conditions on names, texts, states, limits and times.
//
// Pure.

#ifndef SERVICES_MASTER_POLICIES_POLICY_CODEC_H_
#define SERVICES_MASTER_POLICIES_POLICY_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "services/master/requests/list_filter.h"

namespace escapement::master {

// INVALID_ARGUMENT (filter). Names without "/" are those of the tenant.
absl::StatusOr<ListFilter> ReadPolicyFilter(absl::string_view text, absl::string_view tenant);

// Throttling policies: public messages ↔ records, with full validation. Pure.

// Reads a client's policy, with validation and defaults: everything except name, version, state and
// times. INVALID_ARGUMENT with every field that is wrong ("policy.max_concurrent").
absl::StatusOr<storage::v1::PolicyRecord> ReadPolicy(const v1::ThrottlePolicy& policy);

// Reads the override of a request, without create_time. Adds every field that is wrong
// ("override.reason") except an expire_time that is too early or too late: see CheckOverrideTime.
storage::v1::OverrideRecord ReadOverride(const v1::PolicyOverride& override,
                                         FieldViolations& violations);
// Adds an error if the override does not end between now and kOverrideMax later.
void CheckOverrideTime(const storage::v1::OverrideRecord& override, absl::Time now,
                       FieldViolations& violations);

// True if the override has an effect at `now`: its time has not passed.
bool InForce(const storage::v1::OverrideRecord& override, absl::Time now);

// `current` with the fields of `patch` that the mask names; without a mask, with all that are set
// in `patch`; "*" replaces all. Output-only fields and the name stay. A burst, of the policy or of
// its keys, goes with the rate that it belonged to, and per_key with the last of its limits.
// INVALID_ARGUMENT (update_mask) for a path that is no field.
absl::StatusOr<v1::ThrottlePolicy> ApplyPolicyMask(const v1::ThrottlePolicy& current,
                                                   const v1::ThrottlePolicy& patch,
                                                   const google::protobuf::FieldMask& mask);

// With the overrides that are in force at `now`.
v1::ThrottlePolicy ShowPolicy(const storage::v1::PolicyRecord& record, absl::Time now);
v1::PolicyOverride ShowOverride(const storage::v1::OverrideRecord& record);

// Quoted: version and creation, since a policy that is made again counts from 1 again.
std::string PolicyEtag(const storage::v1::PolicyRecord& record);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_CODEC_H_
