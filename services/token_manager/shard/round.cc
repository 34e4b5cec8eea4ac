#include "services/token_manager/shard/round.h"

#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {

using kv::ColumnFamily;
using kv::Mutation;

void CountEnds(PolicyShardState& state, Round& round, const RowSource& source,
               storage::v1::OutcomeKind outcome, uint64_t count, int64_t end_micros) {
  if (source.one_off()) return;
  ChangeCounts(state, round, CountsKeyOf(source, state.shard),
               [&](storage::v1::RunPartRecord& counts) {
                 CountInSchedule(outcome, count, end_micros, counts);
               });
}

void PutRow(PolicyShardState& state, kv::Group& group, WaitingPut row) {
  state.AddRow(row.key, row.value, /*read_seq=*/0);
  group.mutations.push_back(
      {.cf = ColumnFamily::kWaiting, .key = std::move(row.key), .value = std::move(row.value)});
}

kv::Mutation CountsPut(PolicyState& policy, int64_t now_micros) {
  return {.cf = ColumnFamily::kGrants,
          .key = PolicyCountsKey(policy.policy_shard, policy.uid),
          .value = policy.EncodeCounts(now_micros)};
}

void PutGrant(const PolicyState& policy, const Grant& grant, kv::Group& group) {
  std::string key = EncodeGrantKey({.policy_shard = policy.policy_shard,
                                    .policy = policy.uid,
                                    .epoch = grant.epoch,
                                    .number = grant.number});
  if (grant.holders.empty()) {
    group.mutations.push_back(
        {.cf = ColumnFamily::kGrants, .kind = Mutation::Kind::kDelete, .key = std::move(key)});
    return;
  }
  group.mutations.push_back(
      {.cf = ColumnFamily::kGrants, .key = std::move(key), .value = EncodeGrant(grant)});
}

void PutPart(PolicyShardState& state, const std::string& key, kv::Group& group) {
  const storage::v1::RunPartRecord* part = state.parts.Find(key);
  if (part == nullptr) return;
  group.mutations.push_back(
      {.cf = ColumnFamily::kRunParts, .key = key, .value = part->SerializeAsString()});
}

std::map<Uid, kv::Mutation> CloseBase(PolicyShardState& state, Round& round) {
  std::map<Uid, kv::Mutation> counts;
  for (const auto& [uid, grants] : round.touched) {
    PolicyState* policy = state.Find(uid);
    if (policy == nullptr) continue;
    for (const GrantSet::Key& key : grants) {
      const Grant* grant = policy->grants.Find(key);
      if (grant == nullptr) continue;
      PutGrant(*policy, *grant, round.base);
      const std::shared_ptr<const RowSource> source = grant->source;
      if (policy->grants.Sweep(key)) state.UnpinCounts(*source);
    }
    if (!policy->implicit()) counts.emplace(uid, CountsPut(*policy, round.micros));
  }
  for (const std::string& key : round.parts) PutPart(state, key, round.base);
  AddEnds(round.ends, state.core.layout.queue_shards, round.base.mutations);
  return counts;
}

}  // namespace escapement::token_manager
