#include "services/token_manager/granting/grant_draft.h"

#include <algorithm>
#include <utility>

#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/runtime/perturb.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {
namespace {

// A claim goes to one queue shard; so much of a round goes there before the next one's turn.
constexpr uint64_t kClaimEventsTurn = 256;
constexpr int kClaimEntriesTurn = 64;
constexpr size_t kClaimBytesMax = 1 << 20;

// Without further limits, which a handler does not need: they are put aside, not copied.
storage::v1::EventRecord EventToSend(const RowSource& source) {
  if (source.further.empty()) return source.event;
  auto& more = *const_cast<RowSource&>(source).event.mutable_throttle()->mutable_more();
  auto aside = std::move(more);
  storage::v1::EventRecord event = source.event;
  more = std::move(aside);
  return event;
}

}  // namespace

using kv::ColumnFamily;

GrantDraft::GrantDraft(PolicyShardState& state, absl::Time now)
    : state_(state),
      now_(now),
      micros_(ToMicros(now)),
      claim_events_turn_(
          Perturb(state.core.runtime, Site::kTokensClaimOfOneGrant) ? 1 : kClaimEventsTurn) {}

GrantDraft::Claim* GrantDraft::OpenClaim(std::optional<uint16_t> theirs) {
  const QueueShards& shards = state_.core.queue_shards;
  if (!claims_.empty()) {
    Claim& open = claims_.back();
    const bool turn_over =
        open.events >= claim_events_turn_ || open.record.entries_size() >= kClaimEntriesTurn;
    if (open.bytes < kClaimBytesMax &&
        (open.queue_shard == theirs || shards.Room(open.queue_shard, now_) > 0) &&
        (!turn_over || shards.NextWithRoom(open.queue_shard, now_) == open.queue_shard))
      return &open;
  }
  std::optional<uint16_t> shard = shards.NextWithRoom(state_.last_queue_shard, now_);
  if (!shard.has_value() && theirs.has_value() && shards.Live(*theirs, now_)) shard = theirs;
  if (!shard.has_value()) return nullptr;
  state_.last_queue_shard = *shard;
  claims_.push_back(
      {.queue_shard = *shard, .number = GrantedClaimNumber(state_.shard, ++state_.used.claims)});
  return &claims_.back();
}

void GrantDraft::Make(PolicyState& policy, const std::string& key, WaitingRow& row, uint64_t count,
                      const RowJudgement& judged, Claim& claim) {
  const RowSource& source = *row.source();
  const int64_t may_go = ToMicros(row.key_time());
  // Its key is in use as long as the row is there.
  const bool key_stays = row.taken() == 0 && count < row.count();
  Grant grant{.epoch = state_.lease.epoch,
              .number = ++state_.used.grants,
              .source = row.source(),
              .holders = {{.first = row.first() + row.taken(),
                           .count = count,
                           .lost_claims = source.event.lost_claims()}}};
  grant.record.set_claimed_version(judged.definition->record->version());
  grant.record.set_delivery_timeout_micros(absl::ToInt64Microseconds(judged.definition->timeout));
  grant.record.set_return_due_micros(key_stays ? may_go - 1 : may_go);
  grant.record.set_grant_time_micros(micros_);
  SetClaim(claim, grant.record);
  AddEntry(claim, policy.uid, grant, key, EventToSend(source), grant.holders[0], judged);
  // It may be cancelled until it is granted.
  if (source.one_off()) Require(kv::Present(ColumnFamily::kWaiting, key), policy.uid, key);
  state_.PinCounts(source);
  TakeRate(policy, source, grant.key(), count, judged.definition->target_key, /*new_tokens=*/true);
  CountInRun(source, count);
  changes_.try_emplace(
      {policy.uid, grant.key()},
      Change{.source = grant.source,
             .target = judged.definition->target_key,
             .row_key = &rows_.try_emplace(key, TakenRow{policy.uid, &row}).first->first,
             .count = count});
  ++new_grants_;
  policy.grants.Add(std::move(grant));
  policy.waiting.Grant(key, row, count);
}

void GrantDraft::TakeRate(PolicyState& policy, const RowSource& source, GrantSet::Key name,
                          uint64_t count, const std::string& target, bool new_tokens) {
  const TargetBackoff::Probe probe{state_.lease.index, name.first, name.second};
  state_.core.backoff.OnGranted(target, probe, now_);
  if (policy.by_key())
    state_.core.backoff.OnGranted(PausedKey(policy.uid, source.key()), probe, now_);
  const auto take = [&](PolicyState& of, const std::string& key, uint64_t weight) {
    if (rate_before_.try_emplace(of.uid, of.rate).second && !of.implicit())
      Require(of.RecordUnchanged(), of.uid);
    of.rate.Take(count, now_);
    if (new_tokens) {
      if (of.counts.granted() == 0) of.counts.set_returns(storage::v1::PolicyCountsRecord::NONE);
      of.counts.set_granted(of.counts.granted() + count * weight);
      of.granted_rate.Add(count * weight, micros_);
    }
    RateLimit rate = of.RateOf(key);
    if (!rate.limited()) return;
    key_rate_before_.try_emplace({of.uid, key}, of.key_rates.Find(key));
    rate.Take(count, now_);
    of.key_rates.Set(key, rate);
  };
  state_.ForEachLimit(policy, source, take);
}

void GrantDraft::MakeAgain(PolicyState& policy, GrantSet::Key name, const HeldRange& range,
                           const RowJudgement& judged, Claim& claim) {
  const Grant& grant = *policy.grants.Find(name);
  const RowSource& source = *grant.source;
  const std::string& target = judged.definition->target_key;
  storage::v1::GrantRecord record = grant.record;
  changes_.try_emplace({policy.uid, name},
                       Change{.source = grant.source, .target = target, .former = record});
  if (grant.sleeps()) {
    record.set_grant_time_micros(micros_);
    TakeRate(policy, source, name, range.count, target, /*new_tokens=*/false);
  }
  SetClaim(claim, record);
  policy.grants.SetClaim(name, record);
  AddEntry(claim, policy.uid, grant,
           WaitingKeyOf(state_.shard, policy.uid, source, range.first, record.return_due_micros()),
           ReturnedEvents(source, range, /*tried_micros=*/0), range, judged);
  resumed_.push_back(
      {.policy = policy.uid, .grant = name, .first = range.first, .count = range.count});
}

void GrantDraft::SetClaim(const Claim& claim, storage::v1::GrantRecord& record) const {
  record.clear_retry_at_micros();
  record.set_send_before_micros(ToMicros(now_ + state_.core.options.send_within));
  record.set_queue_shard(claim.queue_shard);
  record.set_claim_epoch(state_.lease.epoch);
  record.set_claim_number(claim.number);
}

void GrantDraft::AddEntry(Claim& claim, const Uid& policy, const Grant& grant,
                          std::string event_key, storage::v1::EventRecord event,
                          const HeldRange& range, const RowJudgement& judged) {
  claim.bytes += event_key.size() + 256 + event.ByteSizeLong();
  claim.events += range.count;
  events_ += range.count;
  claim.record.set_delivery_timeout_max_micros(
      std::max(claim.record.delivery_timeout_max_micros(), grant.record.delivery_timeout_micros()));
  auto& entry = *claim.record.add_entries();
  const RowSource& source = *grant.source;
  if (judged.state != nullptr && states_required_.insert(source.uid).second)
    Require(StateUnchanged(source.uid, *judged.state), source.uid);
  entry.set_row_stays(source.one_off());
  entry.set_event_key(source.one_off() ? LimitedEventKey(source.uid, source.event)
                                       : std::move(event_key));
  // A handler has no use for them.
  if (event.has_throttle()) event.mutable_throttle()->clear_more();
  *entry.mutable_event() = std::move(event);
  entry.set_claimed_version(grant.record.claimed_version());
  auto& indices = *entry.add_ranges();
  indices.set_first(range.first);
  indices.set_count(range.count);
  auto& ref = *entry.mutable_grant();
  ref.set_policy_shard(state_.shard);
  ref.set_policy_uid(std::string(policy.bytes()));
  ref.set_epoch(grant.epoch);
  ref.set_number(grant.number);
  ref.set_send_before_micros(grant.record.send_before_micros());
}

void GrantDraft::Require(kv::Condition condition, const Uid& uid, std::string row) {
  required_.push_back({.cf = condition.cf, .uid = uid, .row = std::move(row)});
  group_.conditions.push_back(std::move(condition));
}

void GrantDraft::CountInRun(const RowSource& source, uint64_t count) {
  if (source.part_key.empty()) return;
  storage::v1::RunPartRecord* part = state_.parts.Find(source.part_key);
  if (part == nullptr) return;  // CountsKnown was asked
  parts_before_.try_emplace(source.part_key, *part);
  // An event with an attempt was counted when it was first granted.
  if (source.event.attempts() == 0) part->set_granted(part->granted() + count);
  part->set_running(part->running() + count);
  if (!source.event.throttle().policy_id().empty())
    part->set_tokens(part->tokens() + count * source.weight);
  if (part->first_grant_time_micros() == 0) part->set_first_grant_time_micros(micros_);
}

bool GrantDraft::Close(kv::Group& out) {
  if (claims_.empty()) return false;
  std::vector<kv::Mutation>& mutations = group_.mutations;
  for (const auto& [key, taken] : rows_) {
    const WaitingRow& row = *taken.row;
    mutations.push_back(
        row.left() == 0 ? kv::Delete(ColumnFamily::kWaiting, key)
                        : kv::Put(ColumnFamily::kWaiting, key, row.Record().SerializeAsString()));
  }
  for (const auto& [name, change] : changes_) {
    const PolicyState& policy = *state_.Find(name.first);
    if (const Grant* grant = policy.grants.Find(name.second)) PutGrant(policy, *grant, group_);
  }
  for (const auto& [uid, before] : rate_before_) {
    PolicyState& policy = *state_.Find(uid);
    if (!policy.implicit()) mutations.push_back(CountsPut(policy, micros_));
  }
  for (const auto& [name, before] : key_rate_before_) {
    const auto& [uid, key] = name;
    mutations.push_back(kv::Put(ColumnFamily::kGrants, KeyRateKey(state_.shard, uid, key),
                                state_.Find(uid)->key_rates.RecordOf(key).SerializeAsString()));
  }
  for (const auto& [key, before] : parts_before_) PutPart(state_, key, group_);
  for (Claim& claim : claims_) {
    claim.record.set_claim_time_micros(micros_);
    mutations.push_back(kv::Put(
        ColumnFamily::kInflight,
        EncodeClaimKey(
            {.shard = claim.queue_shard, .epoch = state_.lease.epoch, .number = claim.number}),
        claim.record.SerializeAsString()));
  }
  out = std::exchange(group_, {});
  claims_.clear();
  return true;
}

void GrantDraft::Applied() {
  TokenManagerMetrics& metrics = state_.core.metrics;
  metrics.granted.Increment(events_);
  for (const Resend& resend : resumed_) metrics.resent.Increment(resend.count);
  for (const auto& [key, taken] : rows_) {
    PolicyState& policy = *state_.Find(taken.policy);
    WaitingRow& row = *taken.row;
    if (row.left() == 0) state_.reads.NoteDeleted(key, row.read_seq());
    state_.MayReadOn(policy, row.group());
    if (policy.waiting.SettleGrant(key, row)) state_.ReadBack(policy, key);
    state_.Revisit(policy);
  }
}

void GrantDraft::Refused(uint16_t failed_condition, std::deque<Resend>& resends) {
  state_.core.metrics.grants_refused.Increment();
  for (auto each = changes_.rbegin(); each != changes_.rend(); ++each)
    TakeBack(*state_.Find(each->first.first), each->first.second, each->second);
  for (const auto& [name, rate] : key_rate_before_)
    state_.Find(name.first)->key_rates.Set(name.second, rate);
  for (const auto& [key, before] : parts_before_) {
    if (storage::v1::RunPartRecord* part = state_.parts.Find(key)) *part = before;
  }
  for (const auto& [uid, rate] : rate_before_) {
    PolicyState& policy = *state_.Find(uid);
    policy.rate = rate;
    policy.SetLimits(state_.core.client.NowLow());
    state_.counts_due.insert(uid);
    state_.Revisit(policy);
  }
  resends.insert(resends.end(), resumed_.begin(), resumed_.end());
  for (const auto& [key, taken] : rows_) {
    PolicyState& policy = *state_.Find(taken.policy);
    if (policy.waiting.SettleGrant(key, *taken.row)) state_.ReadBack(policy, key);
  }
  for (size_t i = 0; i < required_.size(); ++i) {
    if (failed_condition < required_.size() && i != failed_condition) continue;
    const Required& required = required_[i];
    PolicyState* policy = state_.Find(required.uid);
    if (required.cf == ColumnFamily::kWaiting) {
      state_.ReadBack(*policy, required.row);
    } else if (required.cf != ColumnFamily::kPolicies) {
      state_.core.cache.ForgetState(required.uid);
    } else if (policy != nullptr) {
      state_.ReadAgain(*policy);
    }
  }
}

void GrantDraft::TakeBack(PolicyState& policy, GrantSet::Key name, const Change& change) {
  if (change.former.has_value()) {
    policy.grants.SetClaim(name, *change.former);
    if (change.former->retry_at_micros() == 0) return;
  } else {
    if (policy.grants.Find(name) != nullptr) state_.UnpinCounts(*change.source);
    policy.grants.Forget(name);
    const auto take = [&](PolicyState& of, const std::string& key, uint64_t weight) {
      const uint64_t tokens = std::min(of.counts.granted(), change.count * weight);
      of.counts.set_granted(of.counts.granted() - tokens);
      state_.OpenLimits(of.uid, key);
    };
    state_.ForEachLimit(policy, *change.source, take);
    policy.waiting.Ungrant(*change.row_key, change.count);
  }
  const absl::Time now = state_.core.client.NowLow();
  state_.core.backoff.OnProbeVoid(change.target, now);
  state_.core.backoff.OnProbeVoid(PausedKey(policy.uid, change.source->key()), now);
}

}  // namespace escapement::token_manager
