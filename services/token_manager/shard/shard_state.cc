#include "services/token_manager/shard/shard_state.h"

#include "common/runtime/perturb.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {
namespace {

constexpr size_t kPartsKept = 10'000;    // parts of runs that hold no token
constexpr size_t kReportRowsMax = 4096;  // in memory
constexpr size_t kSmall = 8;             // the same, and a group's rows, under perturbation

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
  PolicyState& policy = At(limit.policy);
  if (policy.named) return policy;
  policy.SetName(source.event.tenant(), limit.policy_id);
  WantRecord(policy);
  return policy;
}

void PolicyShardState::DropIfIdle(PolicyState& policy) {
  if (!policy.idle() || policy.reading || !policy.fetching.empty()) return;
  Reschedule(agenda_, policy.uid, policy.planned, absl::InfiniteFuture());
  unread.erase(policy.uid);
  policies_.erase(policy.uid);
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
