#include "common/storage/grant_table.h"

#include "common/base/key_codec.h"

namespace escapement {

std::string GrantShardPrefix(uint16_t policy_shard) { return KeyWriter().U16(policy_shard).Take(); }

std::string PolicyCountsKey(uint16_t policy_shard, const Uid& policy) {
  return KeyWriter().U16(policy_shard).Id(policy).Take();
}

std::optional<Uid> DecodePolicyCountsKey(absl::string_view key) {
  KeyReader reader(key);
  reader.U16();
  const Uid policy = reader.Id();
  if (!reader.done()) return std::nullopt;
  return policy;
}

std::string EncodeGrantKey(const GrantId& grant) {
  return KeyWriter(PolicyCountsKey(grant.policy_shard, grant.policy))
      .U64(grant.epoch)
      .U64(grant.number)
      .Take();
}

std::optional<GrantId> DecodeGrantKey(absl::string_view key) {
  KeyReader reader(key);
  GrantId grant;
  grant.policy_shard = reader.U16();
  grant.policy = reader.Id();
  grant.epoch = reader.U64();
  grant.number = reader.U64();
  if (!reader.done()) return std::nullopt;
  return grant;
}

std::string GrantsBegin(uint16_t policy_shard, const Uid& policy) {
  return KeyAfter(PolicyCountsKey(policy_shard, policy));
}

std::string GrantsEnd(uint16_t policy_shard, const Uid& policy) {
  return PrefixEnd(PolicyCountsKey(policy_shard, policy));
}

}  // namespace escapement
