// The column family `policies`: throttling policies, and which schedules refer to them.
//
// 0 (u8), tenant (text), policy id (text) → PolicyRecord
//
// 1 (u8), policy uid, schedule uid → empty: the schedule's current definition has this policy. The
// group that changes the schedule writes it, under the condition that the policy is present. A
// policy is deleted under the condition that no such key exists.
//
// A policy's uid is a hash of its name. A policy that is created again may have the same uid,
// because nothing of a deleted policy remains.

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
// The prefix of all policies of a tenant, in the order of their ids.
std::string PolicyPrefix(absl::string_view tenant);

struct PolicyName {
  std::string tenant;
  std::string policy_id;
};
// nullopt if the key is not the key of a policy.
std::optional<PolicyName> DecodePolicyKey(absl::string_view key);

std::string PolicyUserKey(const Uid& policy, const Uid& schedule);
std::string PolicyUserPrefix(const Uid& policy);

Uid PolicyUid(absl::string_view tenant, absl::string_view policy_id);
// The uid under which rows with this throttle wait: their policy's or, without a policy, the
// schedule's own.
Uid WaitingUid(absl::string_view tenant, const storage::v1::ThrottleRecord& throttle,
               const Uid& schedule);
uint16_t PolicyShardOf(const Uid& policy, uint32_t policy_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_POLICY_TABLE_H_
