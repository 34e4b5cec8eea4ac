// The end of a GrantRound: what it writes, and what becomes of it when that has applied or has not.

#include <utility>

#include "common/storage/inflight_table.h"
#include "services/token_manager/granting/grant_round.h"
#include "services/token_manager/judging/record_reader.h"

namespace escapement::token_manager {

using kv::ColumnFamily;
using kv::Mutation;

void GrantRound::PutRows(Round& round) {
  for (const auto& [key, uid] : rows_) {
    const WaitingRow* row = state_.Find(uid)->RowOf(key);
    if (row->left() == 0) {
      group_.mutations.push_back(
          {.cf = ColumnFamily::kWaiting, .kind = Mutation::Kind::kDelete, .key = key});
    } else {
      group_.mutations.push_back(
          {.cf = ColumnFamily::kWaiting, .key = key, .value = row->Record().SerializeAsString()});
    }
  }
  for (const Made& made : made_) {
    const PolicyState& policy = *state_.Find(made.policy);
    PutGrant(policy, *policy.grants.Find(made.grant), group_);
  }
  for (const auto& [name, former] : reclaimed_) {
    const PolicyState& policy = *state_.Find(name.first);
    if (const Grant* grant = policy.grants.Find(name.second)) PutGrant(policy, *grant, group_);
  }
  for (const Uid& uid : counted_) {
    PolicyState& policy = *state_.Find(uid);
    if (!policy.implicit()) group_.mutations.push_back(CountsPut(policy, round.micros));
  }
  for (const auto& [key, before] : parts_before_) PutPart(state_, key, group_);
  for (Claim& claim : claims_) {
    claim.record.set_claim_time_micros(round.micros);
    claim.record.set_delivery_timeout_max_micros(absl::ToInt64Microseconds(claim.timeout_max));
    group_.mutations.push_back(
        {.cf = ColumnFamily::kInflight,
         .key = EncodeClaimKey(
             {.shard = claim.queue_shard, .epoch = state_.lease.epoch, .number = claim.number}),
         .value = claim.record.SerializeAsString()});
  }
}

bool GrantRound::Close(Round& round, kv::Group* out) {
  if (claims_.empty()) return false;
  PutRows(round);
  *out = std::exchange(group_, {});
  claims_.clear();
  return true;
}

void GrantRound::Applied() {
  TokenManagerMetrics& metrics = state_.core.metrics;
  metrics.granted.Increment(events_);
  for (const Resend& resend : resumed_) metrics.resent.Increment(resend.count);
  for (const auto& [key, uid] : rows_) {
    PolicyState& policy = *state_.Find(uid);
    const WaitingRow* row = policy.RowOf(key);
    if (row == nullptr) continue;
    const GroupKey group{row->priority, row->source->uid};
    if (row->left() == 0) state_.NoteDeleted(key, row->read_seq);
    state_.MayReadOn(policy, group);
    Settle(policy, key);
    state_.MakeReady(policy);
    state_.Plan(policy);
  }
}

void GrantRound::Settle(PolicyState& policy, const std::string& key) {
  const WaitingRow* row = policy.RowOf(key);
  const bool told = row != nullptr && row->told;
  policy.Settle(key);
  if (told) state_.ReadBack(policy, key);
}

void GrantRound::Refused(uint16_t failed_condition, std::deque<Resend>& resends) {
  state_.core.metrics.grants_refused.Increment();
  for (size_t i = 0; i < condition_of_.size(); ++i) {
    if (failed_condition < condition_of_.size() && i != failed_condition) continue;
    if (!of_policy_[i]) {
      state_.core.cache.ForgetState(condition_of_[i]);
    } else if (PolicyState* policy = state_.Find(condition_of_[i])) {
      RecordReader::ReadAgain(state_, *policy);
    }
  }
  for (const auto& [name, former] : reclaimed_) {
    if (PolicyState* policy = state_.Find(name.first))
      policy->grants.Reclaim(name.second, former.queue_shard, former.epoch, former.number,
                             former.send_before_micros);
  }
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) TakeBack(*made);
  for (const auto& [uid, rate] : rate_before_) {
    PolicyState& policy = *state_.Find(uid);
    policy.rate = rate;
    // With the limits of now.
    if (policy.record.has_value())
      policy.rate.SetLimits(policy.record->max_per_second(), policy.record->burst(),
                            state_.core.client.NowLow());
  }
  for (const auto& [key, before] : parts_before_) {
    if (storage::v1::RunPartRecord* part = state_.parts.Find(key)) *part = before;
  }
  for (const Uid& uid : counted_) {
    state_.counts_due.insert(uid);
    PolicyState& policy = *state_.Find(uid);
    state_.MakeReady(policy);
    state_.Plan(policy);
  }
  resends.insert(resends.end(), resumed_.begin(), resumed_.end());
  for (const auto& [key, uid] : rows_) Settle(*state_.Find(uid), key);
}

void GrantRound::TakeBack(const Made& made) {
  PolicyState& policy = *state_.Find(made.policy);
  if (const Grant* grant = policy.grants.Find(made.grant)) {
    const std::string part_key = grant->source->part_key;
    if (!part_key.empty()) state_.parts.Unpin(part_key);
  }
  policy.grants.Forget(made.grant);
  policy.counts.set_granted(policy.counts.granted() -
                            std::min(policy.counts.granted(), made.count));
  policy.Untake(made.row_key, made.count);
  state_.core.backoff.OnProbeVoid(made.target, state_.core.client.NowLow());
}

}  // namespace escapement::token_manager
