// Reads the present use of a throttling policy: the holders of its tokens and the waiting events.
//
// The counts, the holders, the waiting events and the schedules' names are read one after the
// other, not in one snapshot. So a change during the read may show in one and not in the other.
// Bounded: a page of holders and kUsageRowsMax rows of waiting events. Only the first few rows of a
// schedule that are not due yet are read.
//
// Threads: runs on the context's executor.

#ifndef SERVICES_MASTER_POLICIES_POLICY_USAGE_H_
#define SERVICES_MASTER_POLICIES_POLICY_USAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/v1/policy_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// The holder to begin with: event `index` of a grant, or what follows it. All 0: the first.
struct HolderPosition {
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint64_t index = 0;
};

struct PolicyUsageQuery {
  PolicyName name;
  size_t holders_max = 0;  // at least 1
  HolderPosition begin = {};
};

struct PolicyUsagePage {
  v1::PolicyUsage usage;  // without next_page_token
  bool more = false;
  HolderPosition next;  // if there are more holders
};

// NOT_FOUND if there is no such policy, UNAVAILABLE (NOT_READY) before the key of tokens is known.
void ReadPolicyUsage(MasterContext& context, PolicyUsageQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<PolicyUsagePage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_USAGE_H_
