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

// Without further limits, for which a handler has no use: they are put aside, not copied.
std::string BytesToSend(storage::v1::EventRecord& event) {
  google::protobuf::RepeatedPtrField<storage::v1::LimitRecord> aside;
  if (event.throttle().more_size() > 0) aside.Swap(event.mutable_throttle()->mutable_more());
  std::string bytes = event.SerializeAsString();
  if (!aside.empty()) aside.Swap(event.mutable_throttle()->mutable_more());
  return bytes;
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
        open.events >= claim_events_turn_ || open.entry_count >= kClaimEntriesTurn;
    if (open.record.size() < kClaimBytesMax &&
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

void GrantDraft::Make(PolicyState& policy, WaitingRow& row, uint64_t count,
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
  std::string sent;  // only if it is not the whole event
  if (source.shared_further != nullptr)
    sent = BytesToSend(const_cast<storage::v1::EventRecord&>(source.event));
  AddEntry(claim, policy.uid, grant, row.key(), sent.empty() ? EventBytesOf(source) : sent,
           grant.holders[0], judged);
  state_.PinCounts(source);
  TakeRate(policy, source, grant.key(), count, judged.definition->target_key, /*new_tokens=*/true);
  CountInRun(source, count);
  const TakenRow from{policy.uid, &row};
  if (!row.busy()) {  // else this commit has a grant of it already
    rows_.push_back(from);
    // It may be cancelled until it is granted.
    if (source.one_off()) Require(kv::Present(ColumnFamily::kWaiting, row.key()), policy.uid, &row);
  }
  made_.push_back(
      {.name = grant.key(), .from = from, .count = count, .definition = judged.definition});
  PutGrant(policy, grant, group_);
  policy.grants.Add(std::move(grant));
  policy.waiting.Grant(row.key(), row, count);
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
  again_.try_emplace({policy.uid, name}, Again{grant.source, judged.definition, record});
  if (grant.sleeps()) {
    record.set_grant_time_micros(micros_);
    TakeRate(policy, source, name, range.count, target, /*new_tokens=*/false);
  }
  SetClaim(claim, record);
  policy.grants.SetClaim(name, record);
  storage::v1::EventRecord event = ReturnedEvents(source, range, /*tried_micros=*/0);
  AddEntry(claim, policy.uid, grant,
           WaitingKeyOf(state_.shard, policy.uid, source, range.first, record.return_due_micros()),
           BytesToSend(event), range, judged);
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
                          const std::string& row_key, const std::string& event_bytes,
                          const HeldRange& range, const RowJudgement& judged) {
  ++claim.entry_count;
  claim.events += range.count;
  events_ += range.count;
  claim.delivery_timeout_max_micros =
      std::max(claim.delivery_timeout_max_micros, grant.record.delivery_timeout_micros());
  const RowSource& source = *grant.source;
  if (judged.state != nullptr && states_required_.insert(source.uid).second)
    Require(StateUnchanged(source.uid, *judged.state), source.uid);
  using Entry = storage::v1::ClaimRecord::Entry;
  using Ref = storage::v1::GrantRef;
  using Indices = storage::v1::IndexRange;
  MessageWriter indices(15), ref(64), entry(event_bytes.size() + 192);
  indices.Number(Indices::kFirstFieldNumber, range.first)
      .Number(Indices::kCountFieldNumber, range.count);
  ref.Number(Ref::kPolicyShardFieldNumber, state_.shard)
      .Bytes(Ref::kPolicyUidFieldNumber, policy.bytes())
      .Number(Ref::kEpochFieldNumber, grant.epoch)
      .Number(Ref::kNumberFieldNumber, grant.number)
      .Number(Ref::kSendBeforeMicrosFieldNumber,
              static_cast<uint64_t>(grant.record.send_before_micros()));
  if (source.one_off()) {
    entry.Bytes(Entry::kEventKeyFieldNumber, LimitedEventKey(source.uid, source.event));
  } else {
    entry.Bytes(Entry::kEventKeyFieldNumber, row_key);
  }
  entry.Message(Entry::kEventFieldNumber, event_bytes)
      .Message(Entry::kRangesFieldNumber, indices.written())
      .Number(Entry::kRowStaysFieldNumber, source.one_off() ? 1 : 0)
      .Number(Entry::kClaimedVersionFieldNumber, grant.record.claimed_version())
      .Message(Entry::kGrantFieldNumber, ref.written());
  claim.record.Message(storage::v1::ClaimRecord::kEntriesFieldNumber, entry.written());
}

void GrantDraft::Require(kv::Condition condition, const Uid& uid, const WaitingRow* row) {
  required_.push_back({.cf = condition.cf, .uid = uid, .row = row});
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
  for (const auto& [policy, row] : rows_) {
    mutations.push_back(row->left() == 0 ? kv::Delete(ColumnFamily::kWaiting, row->key())
                                         : kv::Put(ColumnFamily::kWaiting, row->key(),
                                                   row->Record().SerializeAsString()));
  }
  for (const auto& [name, again] : again_) {
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
    claim.record
        .Number(storage::v1::ClaimRecord::kClaimTimeMicrosFieldNumber,
                static_cast<uint64_t>(micros_))
        .Number(storage::v1::ClaimRecord::kDeliveryTimeoutMaxMicrosFieldNumber,
                static_cast<uint64_t>(claim.delivery_timeout_max_micros));
    mutations.push_back(kv::Put(
        ColumnFamily::kInflight,
        EncodeClaimKey(
            {.shard = claim.queue_shard, .epoch = state_.lease.epoch, .number = claim.number}),
        claim.record.Take()));
  }
  out = std::exchange(group_, {});
  claims_.clear();
  return true;
}

void GrantDraft::Applied() {
  TokenManagerMetrics& metrics = state_.core.metrics;
  metrics.granted.Increment(events_);
  for (const Resend& resend : resumed_) metrics.resent.Increment(resend.count);
  std::vector<std::pair<Uid, GroupKey>> groups;  // some more than once
  for (const TakenRow& taken : rows_) {
    const WaitingRow& row = *taken.row;
    if (groups.empty() || groups.back() != std::pair(taken.policy, row.group()))
      groups.emplace_back(taken.policy, row.group());
    if (row.left() == 0) state_.reads.NoteDeleted(row.key(), row.read_seq());
    Settle(taken);
  }
  for (const auto& [uid, group] : groups) {
    PolicyState& policy = *state_.Find(uid);
    state_.MayReadOn(policy, group);
    state_.Revisit(policy);
  }
}

void GrantDraft::Settle(const TakenRow& taken) {
  PolicyState& policy = *state_.Find(taken.policy);
  // The row may be gone after that, and its key with it.
  const std::string rewritten = taken.row->rewritten() ? taken.row->key() : std::string();
  if (policy.waiting.SettleGrant(taken.row->key(), *taken.row)) state_.ReadBack(policy, rewritten);
}

void GrantDraft::Refused(uint16_t failed_condition, std::deque<Resend>& resends) {
  state_.core.metrics.grants_refused.Increment();
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) TakeBack(*made);
  for (const auto& [name, again] : again_) {
    PolicyState& policy = *state_.Find(name.first);
    policy.grants.SetClaim(name.second, again.former);
    if (again.former.retry_at_micros() != 0) VoidProbe(policy, *again.source, *again.definition);
  }
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
  std::vector<std::pair<PolicyState*, std::string>> read_back;
  for (size_t i = 0; i < required_.size(); ++i) {
    if (failed_condition < required_.size() && i != failed_condition) continue;
    const Required& required = required_[i];
    PolicyState* policy = state_.Find(required.uid);
    if (required.cf == ColumnFamily::kWaiting) {
      read_back.emplace_back(policy, required.row->key());
    } else if (required.cf != ColumnFamily::kPolicies) {
      state_.core.cache.ForgetState(required.uid);
    } else if (policy != nullptr) {
      state_.ReadAgain(*policy);
    }
  }
  for (const TakenRow& taken : rows_) Settle(taken);
  for (const auto& [policy, key] : read_back) state_.ReadBack(*policy, key);
}

void GrantDraft::TakeBack(const Made& made) {
  PolicyState& policy = *state_.Find(made.from.policy);
  const RowSource& source = *made.from.row->source();
  if (policy.grants.Find(made.name) != nullptr) state_.UnpinCounts(source);
  policy.grants.Forget(made.name);
  const auto take = [&](PolicyState& of, const std::string& key, uint64_t weight) {
    const uint64_t tokens = std::min(of.counts.granted(), made.count * weight);
    of.counts.set_granted(of.counts.granted() - tokens);
    state_.OpenLimits(of.uid, key);
  };
  state_.ForEachLimit(policy, source, take);
  policy.waiting.Ungrant(made.from.row->key(), made.count);
  VoidProbe(policy, source, *made.definition);
}

void GrantDraft::VoidProbe(const PolicyState& policy, const RowSource& source,
                           const CachedDefinition& definition) {
  const absl::Time now = state_.core.client.NowLow();
  state_.core.backoff.OnProbeVoid(definition.target_key, now);
  state_.core.backoff.OnProbeVoid(PausedKey(policy.uid, source.key()), now);
}

}  // namespace escapement::token_manager
