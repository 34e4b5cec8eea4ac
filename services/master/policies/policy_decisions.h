// Decides what each change of a throttling policy writes and answers. Pure: stored state, request
// and now in; one group and an answer out.
//
// Every change is one group that writes the policy's record, on condition that the record is as it
// was read. So a change excludes every other change and every grant. The creation or deletion of a
// policy also excludes every schedule that begins to refer to it.
//
// Every change also removes the overrides whose time has passed, and those of keys if the policy
// has no limits for keys any more.

#ifndef SERVICES_MASTER_POLICIES_POLICY_DECISIONS_H_
#define SERVICES_MASTER_POLICIES_POLICY_DECISIONS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

using PolicyDecision = RecordDecision;

struct PolicyInput {
  const std::optional<storage::v1::PolicyRecord>& current;  // unset: there is none
  const std::string& bytes;                                 // as stored
  const PolicyName& name;
  const kv::Layout& layout;
  absl::Time now;  // store time
};

// ALREADY_EXISTS if there is one. `draft` as ReadPolicy gives it.
absl::StatusOr<PolicyDecision> DecideCreatePolicy(const PolicyInput& input,
                                                  const storage::v1::PolicyRecord& draft);
// All others: NOT_FOUND if there is none, ABORTED (ETAG_MISMATCH) if an etag is given and not the
// current one.
absl::StatusOr<PolicyDecision> DecideUpdatePolicy(const PolicyInput& input,
                                                  const v1::UpdatePolicyRequest& request);
// Refused (errors.h: PolicyHasSchedules, PolicyHasWaiting, PolicyHasHolders) by the group's own
// conditions. The counts and the last hour go with it.
absl::StatusOr<PolicyDecision> DecideDeletePolicy(const PolicyInput& input,
                                                  const v1::DeletePolicyRequest& request);
absl::StatusOr<PolicyDecision> DecidePausePolicy(const PolicyInput& input,
                                                 const v1::PausePolicyRequest& request);
absl::StatusOr<PolicyDecision> DecideResumePolicy(const PolicyInput& input,
                                                  const v1::ResumePolicyRequest& request);
// INVALID_ARGUMENT for a wrong override, or one of a key if the policy has no per_key;
// FAILED_PRECONDITION (errors.h: TooManyOverrides).
absl::StatusOr<PolicyDecision> DecideOverridePolicy(const PolicyInput& input,
                                                    const v1::OverridePolicyRequest& request);
// FAILED_PRECONDITION (errors.h: NoOverride).
absl::StatusOr<PolicyDecision> DecideClearOverride(const PolicyInput& input,
                                                   const v1::ClearOverrideRequest& request);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_DECISIONS_H_
