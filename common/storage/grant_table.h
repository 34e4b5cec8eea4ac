// The column family `grants`: which events hold tokens, and a policy's counts. Only the owner of
// the policy shard writes it.
//
// policy shard (u16), policy uid → PolicyCountsRecord
//
// policy shard (u16), policy uid, epoch (u64), number (u64) → GrantRecord. Epoch and number are the
// generation of the grant's tokens, and are never used again.

#ifndef COMMON_STORAGE_GRANT_TABLE_H_
#define COMMON_STORAGE_GRANT_TABLE_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"

namespace escapement {

struct GrantId {
  uint16_t policy_shard = 0;
  Uid policy;
  uint64_t epoch = 0;   // epoch of the policy shard's lease at the grant
  uint64_t number = 0;  // 1, 2, 3 … in that epoch

  friend auto operator<=>(const GrantId&, const GrantId&) = default;
};

std::string EncodeGrantKey(const GrantId& grant);
// nullopt if the key is not the key of a grant.
std::optional<GrantId> DecodeGrantKey(absl::string_view key);

std::string PolicyCountsKey(uint16_t policy_shard, const Uid& policy);
// nullopt if the key is not the key of counts.
std::optional<Uid> DecodePolicyCountsKey(absl::string_view key);

// All grants of a policy are in [GrantsBegin, GrantsEnd).
std::string GrantsBegin(uint16_t policy_shard, const Uid& policy);
std::string GrantsEnd(uint16_t policy_shard, const Uid& policy);
// All keys of a policy shard have this prefix.
std::string GrantShardPrefix(uint16_t policy_shard);

}  // namespace escapement

#endif  // COMMON_STORAGE_GRANT_TABLE_H_
