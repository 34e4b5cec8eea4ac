#include "services/token_manager/granting/grant_draft.h"

#include <algorithm>
#include <utility>

#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/runtime/perturb.h"
#include "common/storage/waiting_table.h"
#include "services/token_manager/shard/record_reader.h"

namespace escapement::token_manager {
namespace {

// A claim goes to one queue shard; so much of a round goes there before the next one's turn.
constexpr uint64_t kClaimEventsTurn = 256;
constexpr int kClaimEntriesTurn = 64;
constexpr size_t kClaimBytesMax = 1 << 20;

std::string PausedKeyOf(const PolicyState& policy, const Grant& grant) {
  return policy.by_key() ? PausedKey(policy.uid, grant.source->event.throttle().policy_key())
                         : std::string();
}

}  // namespace

using kv::ColumnFamily;
using kv::Mutation;

GrantDraft::GrantDraft(PolicyShardState& state)
    : state_(state),
      claim_events_turn_(
          Perturb(state.core.runtime, Site::kTokensClaimOfOneGrant) ? 1 : kClaimEventsTurn) {}

GrantDraft::Claim* GrantDraft::OpenClaim(absl::Time now, std::optional<uint16_t> theirs) {
  const QueueShards& shards = state_.core.queue_shards;
  if (!claims_.empty()) {
    Claim& open = claims_.back();
    const bool turn_over =
        open.events >= claim_events_turn_ || open.record.entries_size() >= kClaimEntriesTurn;
    if (open.bytes < kClaimBytesMax &&
        (open.queue_shard == theirs || shards.Room(open.queue_shard, now) > 0) &&
        (!turn_over || shards.NextWithRoom(open.queue_shard, now) == open.queue_shard))
      return &open;
  }
  std::optional<uint16_t> shard = shards.NextWithRoom(state_.last_queue_shard, now);
  if (!shard.has_value() && theirs.has_value() && shards.Live(*theirs, now)) shard = theirs;
  if (!shard.has_value()) return nullptr;
  state_.last_queue_shard = *shard;
  claims_.push_back(
      {.queue_shard = *shard, .number = GrantedClaimNumber(state_.shard, ++state_.used.claims)});
  return &claims_.back();
}

void GrantDraft::Make(PolicyState& policy, const std::string& key, WaitingRow& row, uint64_t count,
                      const RowJudgement& judged, Claim& claim, const Round& round) {
  const TokenManagerOptions& options = state_.core.options;
  const int64_t may_go = ToMicros(row.key_time());
  // Its key is in use as long as the row is there.
  const bool key_stays = row.taken() == 0 && count < row.count();
  Grant grant{.epoch = state_.lease.epoch,
              .number = ++state_.used.grants,
              .source = row.source(),
              .claimed_version = judged.definition->record->version(),
              .grant_micros = round.micros,
              .send_before_micros = ToMicros(round.now + options.send_within),
              .delivery_timeout_micros = absl::ToInt64Microseconds(judged.definition->timeout),
              .return_due_micros = key_stays ? may_go - 1 : may_go,
              .queue_shard = claim.queue_shard,
              .claim_epoch = state_.lease.epoch,
              .claim_number = claim.number,
              .holders = {{.first = row.first() + row.taken(),
                           .count = count,
                           .lost_claims = row.source()->event.lost_claims()}}};
  AddEntry(claim, policy, grant, key, row.Record(), row.first() + row.taken(), count);
  if (row.source()->one_off()) {
    RequireRow(policy, key);
  } else {
    RequireState(row.source()->uid, *judged.state);
  }
  state_.PinCounts(*row.source());
  TakeRate(policy, grant, count, judged.definition->target_key, round);
  Count(policy, grant, count, round);
  made_.push_back({.policy = policy.uid,
                   .grant = {grant.epoch, grant.number},
                   .row_key = key,
                   .count = count,
                   .target = judged.definition->target_key,
                   .paused_key = PausedKeyOf(policy, grant),
                   .source = grant.source});
  rows_.try_emplace(key, policy.uid);
  policy.grants.Add(std::move(grant));
  policy.waiting.Grant(key, row, count);
  events_ += count;
}

void GrantDraft::TakeRate(PolicyState& policy, const Grant& grant, uint64_t count,
                          const std::string& target, const Round& round) {
  const TargetBackoff::Probe name{state_.lease.index, grant.epoch, grant.number};
  state_.core.backoff.OnGranted(target, count, name, round.now);
  if (const std::string paused = PausedKeyOf(policy, grant); !paused.empty())
    state_.core.backoff.OnGranted(paused, count, name, round.now);
  state_.ForEachLimit(policy, *grant.source,
                      [&](PolicyState& of, const std::string& key, uint64_t /*weight*/) {
                        RequirePolicy(of);
                        counted_.insert(of.uid);
                        rate_before_.try_emplace(of.uid, of.rate);
                        of.rate.Take(count, round.now);
                        const Limits& limits = of.LimitsOf(key);
                        if (!of.by_key() || limits.per_second <= 0) return;
                        key_rate_before_.try_emplace({of.uid, key}, of.key_rates.Find(key));
                        of.key_rates.Take(key, limits, count, round.now);
                      });
}

void GrantDraft::VoidProbes(const std::string& target, const std::string& paused_key) {
  const absl::Time now = state_.core.client.NowLow();
  state_.core.backoff.OnProbeVoid(target, now);
  if (!paused_key.empty()) state_.core.backoff.OnProbeVoid(paused_key, now);
}

void GrantDraft::MakeAgain(PolicyState& policy, GrantSet::Key name, const HeldRange& range,
                           const RowJudgement& judged, Claim& claim, const Round& round) {
  const bool slept = policy.grants.Find(name)->retry_micros != 0;
  reclaimed_.try_emplace({policy.uid, name}, Former{.grant = *policy.grants.Find(name),
                                                    .target = judged.definition->target_key});
  policy.grants.Reclaim(name, claim.queue_shard, state_.lease.epoch, claim.number,
                        ToMicros(round.now + state_.core.options.send_within), round.micros);
  const Grant& grant = *policy.grants.Find(name);
  if (slept) TakeRate(policy, grant, range.count, judged.definition->target_key, round);
  storage::v1::EventRecord event = grant.source->event;
  event.set_count(range.count);
  event.set_lost_claims(range.lost_claims);
  if (event.has_throttle()) event.mutable_throttle()->set_taken(0);
  AddEntry(claim, policy, grant, ReturnedKey(state_.shard, policy.uid, grant, range.first),
           std::move(event), range.first, range.count);
  if (judged.state != nullptr) RequireState(grant.source->uid, *judged.state);
  resumed_.push_back(
      {.policy = policy.uid, .grant = name, .first = range.first, .count = range.count});
  events_ += range.count;
}

void GrantDraft::AddEntry(Claim& claim, const PolicyState& policy, const Grant& grant,
                          std::string event_key, storage::v1::EventRecord event, uint64_t first,
                          uint64_t count) {
  claim.bytes += event_key.size() + 256 + event.ByteSizeLong();
  claim.events += count;
  claim.timeout_max =
      std::max(claim.timeout_max, absl::Microseconds(grant.delivery_timeout_micros));
  auto& entry = *claim.record.add_entries();
  const RowSource& source = *grant.source;
  entry.set_row_stays(source.one_off());
  entry.set_event_key(source.one_off() ? LimitedEventKey(source.uid, source.event)
                                       : std::move(event_key));
  *entry.mutable_event() = std::move(event);
  entry.set_claimed_version(grant.claimed_version);
  auto& range = *entry.add_ranges();
  range.set_first(first);
  range.set_count(count);
  auto& ref = *entry.mutable_grant();
  ref.set_policy_shard(state_.shard);
  ref.set_policy_uid(std::string(policy.uid.bytes()));
  ref.set_epoch(grant.epoch);
  ref.set_number(grant.number);
  ref.set_send_before_micros(grant.send_before_micros);
}

void GrantDraft::RequireState(const Uid& schedule, const CachedState& state) {
  if (!states_required_.insert(schedule).second) return;
  group_.conditions.push_back(StateUnchanged(schedule, state));
  required_.push_back({.what = Required::What::kState, .uid = schedule});
}

void GrantDraft::RequirePolicy(const PolicyState& policy) {
  if (policy.implicit() || !policies_required_.insert(policy.uid).second) return;
  group_.conditions.push_back(policy.RecordUnchanged());
  required_.push_back({.what = Required::What::kPolicy, .uid = policy.uid});
}

void GrantDraft::RequireRow(const PolicyState& policy, const std::string& key) {
  group_.conditions.push_back(kv::Present(ColumnFamily::kWaiting, key));
  required_.push_back({.what = Required::What::kRow, .uid = policy.uid, .row = key});
}

void GrantDraft::Count(PolicyState& policy, const Grant& grant, uint64_t count,
                       const Round& round) {
  state_.ForEachLimit(policy, *grant.source,
                      [&](PolicyState& of, const std::string&, uint64_t weight) {
                        if (of.counts.granted() == 0)
                          of.counts.set_returns(storage::v1::PolicyCountsRecord::NONE);
                        of.counts.set_granted(of.counts.granted() + count * weight);
                        of.granted_rate.Add(count * weight, round.micros);
                      });
  const std::string& part_key = grant.source->part_key;
  if (part_key.empty()) return;
  storage::v1::RunPartRecord* part = state_.parts.Find(part_key);
  if (part == nullptr) return;  // CountsKnown was asked
  parts_before_.try_emplace(part_key, *part);
  // An event with an attempt was counted when it was first granted.
  if (grant.source->event.attempts() == 0) part->set_granted(part->granted() + count);
  part->set_running(part->running() + count);
  if (part->first_grant_time_micros() == 0) part->set_first_grant_time_micros(round.micros);
}

void GrantDraft::PutRows(const Round& round) {
  for (const auto& [key, uid] : rows_) {
    const WaitingRow* row = state_.Find(uid)->waiting.RowOf(key);
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
  for (const auto& [name, before] : key_rate_before_) {
    const auto& [uid, key] = name;
    group_.mutations.push_back(
        kv::Put(ColumnFamily::kGrants, KeyRateKey(state_.shard, uid, key),
                state_.Find(uid)->key_rates.RecordOf(key).SerializeAsString()));
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

bool GrantDraft::Close(const Round& round, kv::Group& out) {
  if (claims_.empty()) return false;
  PutRows(round);
  out = std::exchange(group_, {});
  claims_.clear();
  return true;
}

void GrantDraft::Applied() {
  TokenManagerMetrics& metrics = state_.core.metrics;
  metrics.granted.Increment(events_);
  for (const Resend& resend : resumed_) metrics.resent.Increment(resend.count);
  for (const auto& [key, uid] : rows_) {
    PolicyState& policy = *state_.Find(uid);
    const WaitingRow* row = policy.waiting.RowOf(key);
    if (row == nullptr) continue;
    const GroupKey group{row->priority(), row->source()->group};
    if (row->left() == 0) state_.reads.NoteDeleted(key, row->read_seq());
    state_.MayReadOn(policy, group);
    Settle(policy, key);
    state_.MakeReady(policy);
    state_.Plan(policy);
  }
}

void GrantDraft::Settle(PolicyState& policy, const std::string& key) {
  if (policy.waiting.SettleGrant(key)) state_.ReadBack(policy, key);
}

void GrantDraft::Refused(uint16_t failed_condition, std::deque<Resend>& resends) {
  state_.core.metrics.grants_refused.Increment();
  std::vector<const Required*> rows;
  for (size_t i = 0; i < required_.size(); ++i) {
    if (failed_condition < required_.size() && i != failed_condition) continue;
    const Required& required = required_[i];
    switch (required.what) {
      case Required::What::kState:
        state_.core.cache.ForgetState(required.uid);
        break;
      case Required::What::kPolicy:
        if (PolicyState* policy = state_.Find(required.uid))
          RecordReader::ReadAgain(state_, *policy);
        break;
      case Required::What::kRow:
        rows.push_back(&required);
        break;
    }
  }
  for (const auto& [name, former] : reclaimed_) {
    PolicyState& policy = *state_.Find(name.first);
    policy.grants.Unclaim(name.second, former.grant);
    if (former.grant.retry_micros != 0)
      VoidProbes(former.target, PausedKeyOf(policy, former.grant));
  }
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) TakeBack(*made);
  for (const auto& [name, rate] : key_rate_before_)
    state_.Find(name.first)->key_rates.Restore(name.second, rate);
  for (const auto& [uid, rate] : rate_before_) {
    PolicyState& policy = *state_.Find(uid);
    policy.rate = rate;
    policy.SetLimits(state_.core.client.NowLow());
  }
  for (const auto& [key, before] : parts_before_) {
    if (storage::v1::RunPartRecord* part = state_.parts.Find(key)) *part = before;
  }
  for (const Uid& uid : counted_) {
    state_.WriteCounts(uid);
    PolicyState& policy = *state_.Find(uid);
    state_.MakeReady(policy);
    state_.Plan(policy);
  }
  resends.insert(resends.end(), resumed_.begin(), resumed_.end());
  for (const auto& [key, uid] : rows_) Settle(*state_.Find(uid), key);
  for (const Required* row : rows) state_.ReadBack(*state_.Find(row->uid), row->row);
}

void GrantDraft::TakeBack(const Made& made) {
  PolicyState& policy = *state_.Find(made.policy);
  if (policy.grants.Find(made.grant) != nullptr) state_.UnpinCounts(*made.source);
  policy.grants.Forget(made.grant);
  state_.ForEachLimit(policy, *made.source,
                      [&](PolicyState& of, const std::string& key, uint64_t weight) {
                        const uint64_t tokens = std::min(of.counts.granted(), made.count * weight);
                        of.counts.set_granted(of.counts.granted() - tokens);
                        state_.OpenLimits(of.uid, key);
                      });
  policy.waiting.Ungrant(made.row_key, made.count);
  VoidProbes(made.target, made.paused_key);
}

}  // namespace escapement::token_manager
