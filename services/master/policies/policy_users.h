// CheckUnused: what the commit of DeletePolicy cannot have as its conditions. Events that have a
// policy as a further limit (ThrottleRecord.more) wait, and hold its tokens, in rows of their first
// policy.
//
// Threads: runs on the context's executor.

#ifndef SERVICES_MASTER_POLICIES_POLICY_USERS_H_
#define SERVICES_MASTER_POLICIES_POLICY_USERS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// Reads the rows of the policy's shard. FAILED_PRECONDITION (POLICY_HAS_SCHEDULES,
// POLICY_HAS_WAITING_EVENTS, POLICY_HAS_HELD_TOKENS) if a schedule refers to the policy, or such a
// row has it as a further limit; or (TOO_MUCH_WAITING) if there are more than kCheckedRowsMax rows.
// OK if there is no such policy.
void CheckUnused(MasterContext& context, PolicyName name,
                 absl::AnyInvocable<void(absl::Status)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_USERS_H_
