#include "services/token_manager/shard/round.h"

#include <algorithm>

#include "common/kv/group_parts.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {

using kv::ColumnFamily;

storage::v1::RunPartRecord* CountsToChange(PolicyShardState& state, Round& round,
                                           const std::string& key) {
  storage::v1::RunPartRecord* counts = state.parts.Find(key);
  if (counts != nullptr) round.parts.insert(key);
  return counts;
}

void CountEnds(PolicyShardState& state, Round& round,
               const std::shared_ptr<const RowSource>& source, storage::v1::OutcomeKind outcome,
               uint64_t count, int64_t end_micros) {
  if (source->one_off()) return;
  if (round.last_of_schedule.source != source) {
    round.last_of_schedule = {source, CountsToChange(state, round, source->counts_key)};
  }
  if (round.last_of_schedule.record != nullptr)
    CountInSchedule(outcome, count, end_micros, *round.last_of_schedule.record);
}

void PutRow(PolicyShardState& state, kv::Group& group, kv::Mutation row) {
  state.AddRow(row.key, row.value, /*read_seq=*/0);
  group.mutations.push_back(std::move(row));
}

kv::Mutation CountsPut(PolicyState& policy, int64_t now_micros) {
  return kv::Put(ColumnFamily::kGrants, PolicyCountsKey(policy.policy_shard, policy.uid),
                 policy.EncodeCounts(now_micros));
}

void PutGrant(const PolicyState& policy, const Grant& grant, kv::Group& group) {
  std::string key = EncodeGrantKey({.policy_shard = policy.policy_shard,
                                    .policy = policy.uid,
                                    .epoch = grant.epoch,
                                    .number = grant.number});
  group.mutations.push_back(
      grant.holders.empty() ? kv::Delete(ColumnFamily::kGrants, std::move(key))
                            : kv::Put(ColumnFamily::kGrants, std::move(key), EncodeGrant(grant)));
}

void PutPart(PolicyShardState& state, const std::string& key, kv::Group& group) {
  if (const storage::v1::RunPartRecord* part = state.parts.Find(key))
    group.mutations.push_back(kv::Put(ColumnFamily::kRunParts, key, part->SerializeAsString()));
}

std::map<Uid, kv::Mutation> CloseBase(PolicyShardState& state, Round& round) {
  std::map<Uid, kv::Mutation> counts;
  for (auto& [uid, grants] : round.touched) {
    PolicyState* policy = state.Find(uid);
    if (policy == nullptr) continue;
    std::sort(grants.begin(), grants.end());
    grants.erase(std::unique(grants.begin(), grants.end()), grants.end());
    for (const GrantSet::Key& key : grants) {
      const Grant* grant = policy->grants.Find(key);
      if (grant == nullptr) continue;
      PutGrant(*policy, *grant, round.base);
      if (!grant->holders.empty()) continue;
      state.UnpinCounts(*grant->source);
      policy->grants.Forget(key);
    }
    if (!policy->implicit()) counts.emplace(uid, CountsPut(*policy, round.micros));
  }
  for (const std::string& key : round.parts) PutPart(state, key, round.base);
  for (const EndedRange& end : round.ends) {
    const storage::v1::EventRecord& event = end.source->event;
    round.ended.Add(event.tenant(), end.outcome, end.count,
                    end.attempts == 0 ? event.launch_time_micros() : 0);
  }
  AddEnds(round.ends, state.core.layout.queue_shards, round.base.mutations);
  return counts;
}

}  // namespace escapement::token_manager
