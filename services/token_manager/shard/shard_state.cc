#include "services/token_manager/shard/shard_state.h"

#include <algorithm>

#include "common/runtime/perturb.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {
namespace {

constexpr size_t kPartsKept = 10'000;    // parts of runs that hold no token
constexpr size_t kReportRowsMax = 4096;  // in memory
constexpr size_t kSmall = 8;             // the same, and a group's rows, under perturbation
constexpr size_t kPoliciesAtOnce = 1000;
constexpr size_t kPartsAtOnce = 4000;
constexpr size_t kPayloadsAtOnce = 32;  // a row may have 256 KiB, and a commit 32 MiB

}  // namespace

PolicyShardState::PolicyShardState(TokenManagerCore& core, const lease::HeldLease& lease,
                                   kv::Condition fence, UsedNumbers used)
    : core(core),
      shard(static_cast<uint16_t>(lease.index)),
      lease(lease),
      fence(std::move(fence)),
      used(used),
      group_rows_max(Perturb(core.runtime, Site::kTokensGroupsSmall) ? kSmall
                                                                     : core.options.group_rows_max),
      reports(ReportsPrefix(shard),
              Perturb(core.runtime, Site::kTokensReportQueueSmall) ? kSmall : kReportRowsMax),
      parts(kPartsKept) {}

PolicyState& PolicyShardState::At(const Uid& uid) {
  std::unique_ptr<PolicyState>& policy = policies_[uid];
  if (policy == nullptr)
    policy = std::make_unique<PolicyState>(uid, shard, group_rows_max, &core.queue_shards.totals());
  return *policy;
}

PolicyState& PolicyShardState::FurtherPolicy(const RowSource& source, const FurtherLimit& limit) {
  if (limit.state != nullptr && limit.state_drops == policies_dropped_) return *limit.state;
  PolicyState& policy = At(limit.policy);
  limit.state = &policy;
  limit.state_drops = policies_dropped_;
  if (policy.named) return policy;
  policy.SetName(source.event.tenant(), limit.policy_id);
  WantRecord(policy);
  return policy;
}

void PolicyShardState::DropIfIdle(PolicyState& policy) {
  if (!policy.idle() || policy.reading || !policy.fetching.empty()) return;
  Reschedule(agenda_, policy.uid, policy.planned, absl::InfiniteFuture());
  unread_.erase(policy.uid);
  policies_.erase(policy.uid);
  ++policies_dropped_;
}

PolicyState* PolicyShardState::TakeReady() {
  PolicyState* policy = Find(ready_.front());
  ready_.pop_front();
  if (policy != nullptr) policy->ready = false;
  return policy;
}

void PolicyShardState::Plan(PolicyState& policy) {
  // While records are read it waits for them.
  Reschedule(agenda_, policy.uid, policy.planned,
             policy.fetching.empty() ? policy.NextTime() : absl::InfiniteFuture());
}

PolicyState& PolicyShardState::TakeDue() {
  PolicyState& policy = *Find(agenda_.begin()->second);
  Reschedule(agenda_, policy.uid, policy.planned, absl::InfiniteFuture());
  return policy;
}

void PolicyShardState::OnTargetOpen(const std::string& target) {
  const auto aside = aside_.extract(target);
  if (aside.empty()) return;
  for (const Uid& uid : aside.mapped()) {
    PolicyState* policy = Find(uid);
    if (policy == nullptr) continue;
    policy->waiting.queue().Reconsider(target);
    MakeReady(*policy);
  }
}

void PolicyShardState::RecordsRead() {
  for (const Uid& uid : std::exchange(fetching_, {})) {
    PolicyState* policy = Find(uid);
    if (policy == nullptr) continue;
    policy->fetching.clear();
    policy->waiting.queue().Reconsider(kBeingRead);
    Revisit(*policy);
  }
}

void PolicyShardState::OnPolicy(PolicyState& policy, const std::optional<std::string>& value,
                                kv::CommitSeq seq) {
  if (policy.implicit()) return;
  policy.SetRecord(value, seq, core.client.NowLow());
  gates.OpenAll(policy.uid);
  Revisit(policy);
  // Events that keep their tokens may have waited for it, also as a further limit.
  wake_sleepers_ = true;
}

void PolicyShardState::WakeSleepers() {
  if (!std::exchange(wake_sleepers_, false)) return;
  for (const auto& [uid, policy] : policies_) {
    if (!policy->keeps_tokens()) continue;
    policy->grants.WakeInTime();
    Plan(*policy);
  }
}

void PolicyShardState::ReadAgain(PolicyState& policy) {
  if (policy.implicit()) return;
  policy.reading_is_old = policy.reading;
  WantRecord(policy);
}

void PolicyShardState::ReadRecords() {
  if (!reading_policies_ && !unread_.empty()) ReadPolicies();
  if (!reading_parts_ && parts.wanted()) ReadParts();
  if (!reading_payloads_ && !payloads.wanted.empty()) ReadPayloads();
}

template <typename Then>
void PolicyShardState::Read(std::vector<kv::Key> keys, bool& reading, Then then) {
  reading = true;
  core.client.MultiGet(std::move(keys), core.executor,
                       WhileOwned([this, &reading, then = std::move(then)](
                                      const absl::StatusOr<kv::GetResult>& result) {
                         reading = false;
                         then(result);
                         RecordsRead();
                         core.wake();
                       }));
}

void PolicyShardState::ReadPolicies() {
  std::vector<Uid> uids = TakeFirst(unread_, kPoliciesAtOnce);
  std::vector<kv::Key> keys;
  for (const Uid& uid : uids) {
    PolicyState& policy = *Find(uid);
    policy.reading = true;
    keys.push_back(
        {.cf = kv::ColumnFamily::kPolicies, .key = PolicyKey(policy.tenant, policy.policy_id)});
    keys.push_back({.cf = kv::ColumnFamily::kGrants, .key = PolicyCountsKey(shard, uid)});
    keys.push_back({.cf = kv::ColumnFamily::kGrants, .key = PolicyHistoryKey(shard, uid)});
  }
  Read(std::move(keys), reading_policies_,
       [this, uids = std::move(uids)](const absl::StatusOr<kv::GetResult>& result) {
         for (size_t i = 0; i < uids.size(); ++i) {
           PolicyState* policy = Find(uids[i]);
           if (policy == nullptr) continue;
           policy->reading = false;
           const bool old = std::exchange(policy->reading_is_old, false);
           if (old || !result.ok()) WantRecord(*policy);
           if (!result.ok()) continue;
           // The later of both times: one before the last grant could give back permits that it
           // took.
           const absl::Time now = std::max(result->store_time, core.client.NowLow());
           policy->SetRecord(result->values[3 * i], result->seq, now);
           if (!policy->known)
             policy->SetCounts(result->values[3 * i + 1], result->values[3 * i + 2], now);
           policy->known = true;
           gates.OpenAll(uids[i]);
           Revisit(*policy);
         }
       });
}

void PolicyShardState::ReadParts() {
  std::vector<kv::Key> keys;
  for (std::string& key : parts.TakeWanted(kPartsAtOnce))
    keys.push_back({.cf = kv::ColumnFamily::kRunParts, .key = std::move(key)});
  Read(keys, reading_parts_, [this, keys](const absl::StatusOr<kv::GetResult>& result) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (result.ok()) {
        parts.Put(keys[i].key, result->values[i]);
      } else {
        parts.Find(keys[i].key);  // it is wanted again
      }
    }
  });
}

void PolicyShardState::ReadPayloads() {
  std::vector<kv::Key> keys;
  for (std::string& key : TakeFirst(payloads.wanted, kPayloadsAtOnce))
    keys.push_back({.cf = kv::ColumnFamily::kEvents, .key = std::move(key)});
  Read(keys, reading_payloads_, [this, keys](const absl::StatusOr<kv::GetResult>& result) {
    // After a failure, the next round asks for them again.
    for (size_t i = 0; result.ok() && i < keys.size(); ++i) {
      storage::v1::EventRecord row;
      if (result->values[i].has_value()) row.ParseFromString(*result->values[i]);
      payloads.known[keys[i].key] = std::move(*row.mutable_payload());
    }
    payloads.arrived = true;
  });
}

std::pair<PolicyState*, WaitingRow*> PolicyShardState::FindRow(const std::string& key) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  PolicyState* policy = decoded.has_value() ? Find(decoded->policy) : nullptr;
  return {policy, policy == nullptr ? nullptr : policy->waiting.RowOf(key)};
}

bool PolicyShardState::AddRow(const std::string& key, const std::string& value,
                              kv::CommitSeq read_seq) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  if (!decoded.has_value()) return false;
  PolicyState& policy = At(decoded->policy);
  const bool sound = policy.waiting.Add(key, *decoded, value, read_seq);
  if (const WaitingRow* row = policy.named ? nullptr : policy.waiting.RowOf(key)) {
    const storage::v1::EventRecord& event = row->source()->event;
    policy.SetName(event.tenant(), event.throttle().policy_id());
  }
  if (!policy.known && policy.named) WantRecord(policy);
  const GroupKey group{decoded->priority, decoded->uid};
  if (policy.waiting.IsBeyond(group, key)) MayBeHungry(policy.uid, group);
  Revisit(policy);
  return sound;
}

void PolicyShardState::ReadBack(PolicyState& policy, const std::string& key) {
  policy.waiting.Remove(key);
  reads.Want(key);
}

void PolicyShardState::MayReadOn(const PolicyState& policy, const GroupKey& key) {
  const RowGroup* group = policy.waiting.GroupOf(key);
  if (group == nullptr || !group->has_more()) return;
  MayBeHungry(policy.uid, key);
  core.wake();
}

std::optional<std::pair<Uid, GroupKey>> PolicyShardState::TakeHungry() {
  if (hungry_.empty()) return std::nullopt;
  auto next = hungry_.upper_bound(last_read_on_);
  if (next == hungry_.end()) next = hungry_.begin();
  last_read_on_ = *next;
  hungry_.erase(next);
  return last_read_on_;
}

}  // namespace escapement::token_manager
