// The column family `policies`: throttling policies, and who refers to them.
//
// 0 (u8), tenant (text), policy id (text) → PolicyRecord
// 1 (u8), policy uid, schedule uid → empty: the schedule's current definition has this policy.
// Written by the group that changes the schedule (under the condition that the policy is present);
// a policy is deleted under the condition that there is none.
//
// A policy's uid is a hash of its name: nothing of a policy outlives it, so one that is made again
// may have it too.

#ifndef COMMON_STORAGE_POLICY_TABLE_H_
#define COMMON_STORAGE_POLICY_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"

namespace escapement {

namespace storage::v1 {
class ThrottleRecord;
}

std::string PolicyKey(absl::string_view tenant, absl::string_view policy_id);
// All policies of a tenant have this prefix, in the order of their ids.
std::string PolicyPrefix(absl::string_view tenant);

struct PolicyName {
  std::string tenant;
  std::string policy_id;
};
// nullopt if the key is not of a policy.
std::optional<PolicyName> DecodePolicyKey(absl::string_view key);

std::string PolicyUserKey(const Uid& policy, const Uid& schedule);
std::string PolicyUserPrefix(const Uid& policy);

Uid PolicyUid(absl::string_view tenant, absl::string_view policy_id);
// Where rows with this throttle wait: under their policy's uid or, without one, under the
// schedule's own.
Uid WaitingUid(absl::string_view tenant, const storage::v1::ThrottleRecord& throttle,
               const Uid& schedule);
uint16_t PolicyShardOf(const Uid& policy, uint32_t policy_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_POLICY_TABLE_H_
