// The state that the parts of one owned policy shard share, and the state that all shards of a
// token manager share.
//
// Threads: one, the token manager's executor. A callback of the store keeps a weak_ptr to the
// PolicyShardState and does nothing once it is gone: the lease was lost.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_SHARD_STATE_H_
#define SERVICES_TOKEN_MANAGER_SHARD_SHARD_STATE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/records/record_cache.h"
#include "common/runtime/runtime.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/holding/report_queue.h"
#include "services/token_manager/shard/limit_gates.h"
#include "services/token_manager/shard/queue_shards.h"
#include "services/token_manager/shard/run_parts.h"
#include "services/token_manager/shard/target_backoff.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {

struct TokenManagerCore {
  const TokenManagerOptions& options;
  kv::KvClient& client;
  Runtime& runtime;
  std::shared_ptr<Executor> executor;
  RecordCache& cache;
  QueueShards& queue_shards;
  TargetBackoff& backoff;
  TokenManagerMetrics& metrics;
  std::function<bool(uint32_t shard)> lease_valid;
  std::function<void()> wake;  // steps all shards soon; cheap, any number of times
  // A row of `waiting` was written that may be of another shard owned here (the watches leave out
  // what is written here).
  std::function<void(const std::string& key)> on_row_written;
  // A target is not passed over any more, in any shard.
  std::function<void(const std::string& target)> on_target_open;
  kv::Layout layout = {};  // set before the first shard is
};

// The numbers of a lease's epoch that must never be used twice.
struct UsedNumbers {
  uint64_t grants = 0;
  uint64_t claims = 0;
};

// Payloads of one-off events that may now end as dead letters, which repeat them. Each is read for
// one round and forgotten after it.
struct Payloads {
  std::map<std::string, std::string> known = {};  // by key in `events`
  std::set<std::string> wanted = {};
  bool arrived = false;  // some were read since the last round

  // nullptr: it is being read.
  const std::string* Find(const std::string& key) {
    const auto found = known.find(key);
    if (found != known.end()) return &found->second;
    wanted.insert(key);
    return nullptr;
  }
};

// A watch that tells nothing for longer than so many deletions has nothing old to tell.
inline constexpr size_t kDeletedEarlyMax = 100'000;

struct PolicyShardState {
  TokenManagerCore& core;
  uint16_t shard = 0;
  lease::HeldLease lease = {};
  kv::Condition fence = {};
  UsedNumbers used = {};
  size_t group_rows_max = 0;      // as TokenManagerOptions'
  uint16_t last_queue_shard = 0;  // where the last claim went

  absl::btree_map<Uid, std::unique_ptr<PolicyState>> policies = {};
  std::deque<Uid> ready = {};  // policies that may be granted tokens, to be visited
  absl::btree_set<std::pair<absl::Time, Uid>> agenda = {};  // when time lets something happen
  ReportQueue reports;
  RunParts parts;
  Payloads payloads = {};
  std::set<Uid> unread = {};                       // policies whose records are to be read
  std::set<std::pair<Uid, GroupKey>> hungry = {};  // groups that may have to be read on
  // Keys of rows and reports whose stored value may differ from the one in memory. They are re-read
  // one by one.
  std::set<std::string> to_read = {};
  // Keys that are being re-read, with the number of the read. The result of a read with another
  // number is stale, and so is that of a read that began before the row was deleted.
  absl::flat_hash_map<std::string, uint64_t> reading = {};  // never iterated
  std::set<Uid> fetching = {};  // policies with something in PolicyState::fetching
  std::map<std::string, std::set<Uid>> aside =
      {};  // by target, or key that is paused: policies that pass over schedules for it
  LimitGates gates = {};
  Reservations reservations = {};
  // Rows and reports that were deleted after a read at a snapshot that the watch has not reached
  // yet. Until it has, what the watch says about them is stale.
  std::deque<std::pair<kv::CommitSeq, std::string>> deleted_early = {};
  absl::flat_hash_map<std::string, kv::CommitSeq> deleted_early_keys = {};  // never iterated
  kv::CommitSeq watched_to = 0;
  std::set<Uid> counts_due = {};  // policies whose counts were in a group that was refused

  // nullptr: nothing of it waits or is held.
  PolicyState* Find(const Uid& uid) {
    const auto found = policies.find(uid);
    return found == policies.end() ? nullptr : found->second.get();
  }
  PolicyState& At(const Uid& uid) {
    std::unique_ptr<PolicyState>& policy = policies[uid];
    if (policy == nullptr)
      policy =
          std::make_unique<PolicyState>(uid, shard, group_rows_max, &core.queue_shards.totals());
    return *policy;
  }
  // The policy of a further limit of events that wait under another one.
  PolicyState& FurtherPolicy(const RowSource& source, const FurtherLimit& limit) {
    PolicyState& policy = At(limit.policy);
    if (policy.named) return policy;
    policy.SetName(source.event.tenant(), limit.policy_id);
    if (!policy.reading) unread.insert(policy.uid);
    return policy;
  }
  // Calls visit(policy, key, weight) for each limit of events that wait under `policy`.
  template <typename Visit>
  void ForEachLimit(PolicyState& policy, const RowSource& source, Visit visit) {
    visit(policy, source.key(), source.weight);
    for (const FurtherLimit& limit : source.further)
      visit(FurtherPolicy(source, limit), limit.key, limit.weight);
  }
  // Tokens of these limits may be free.
  void OpenLimits(const std::vector<LimitName>& limits) {
    for (const LimitName& limit : limits) gates.Open(limit);
  }
  // The same for the policy and one key of it.
  void OpenLimits(const Uid& policy, const std::string& key) {
    if (!gates.empty()) OpenLimits({{policy}, {policy, key}});
  }
  // Pins or unpins the counts that the row's events change.
  void PinCounts(const RowSource& source) {
    if (source.one_off()) return;
    if (!source.part_key.empty()) parts.Pin(source.part_key);
    parts.Pin(CountsKeyOf(source, shard));
  }
  void UnpinCounts(const RowSource& source) {
    if (source.one_off()) return;
    if (!source.part_key.empty()) parts.Unpin(source.part_key);
    parts.Unpin(CountsKeyOf(source, shard));
  }
  // False: they are being read.
  bool CountsKnown(const RowSource& source) {
    if (source.one_off()) return true;
    const bool run = source.part_key.empty() || parts.Find(source.part_key) != nullptr;
    return parts.Find(CountsKeyOf(source, shard)) != nullptr && run;
  }
  void MakeReady(PolicyState& policy) {
    if (policy.ready) return;
    policy.ready = true;
    ready.push_back(policy.uid);
  }
  // Its place in the agenda as its state is now.
  void Plan(PolicyState& policy) {
    // While records are read it waits for them.
    const absl::Time next = policy.fetching.empty() ? policy.NextTime() : absl::InfiniteFuture();
    if (next == policy.planned) return;
    if (policy.planned != absl::InfiniteFuture()) agenda.erase({policy.planned, policy.uid});
    if (next != absl::InfiniteFuture()) agenda.insert({next, policy.uid});
    policy.planned = next;
  }
  // A row as it is in the store; false if it makes no sense.
  bool AddRow(const std::string& key, const std::string& value, kv::CommitSeq read_seq) {
    const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
    if (!decoded.has_value()) return false;
    PolicyState& policy = At(decoded->policy);
    const bool sound = policy.waiting.Add(key, *decoded, value, read_seq);
    if (const WaitingRow* row = policy.named ? nullptr : policy.waiting.RowOf(key)) {
      const storage::v1::EventRecord& event = row->source()->event;
      policy.SetName(event.tenant(), event.throttle().policy_id());
    }
    if (!policy.known && policy.named && !policy.reading) unread.insert(policy.uid);
    const GroupKey group{decoded->priority, decoded->uid};
    if (policy.waiting.IsBeyond(group, key)) hungry.insert({policy.uid, group});
    MakeReady(policy);
    Plan(policy);
    return sound;
  }
  // A row of the group that is only in the store may be able to go now.
  void MayReadOn(const PolicyState& policy, const GroupKey& key) {
    const RowGroup* group = policy.waiting.GroupOf(key);
    if (group == nullptr || !group->has_more()) return;
    hungry.insert({policy.uid, key});
    core.wake();
  }
  // A row is to be read: what is being read of it may be of before now.
  void ReadAnew(const std::string& key) {
    reading.erase(key);
    to_read.insert(key);
  }
  // … and is not in memory until then.
  void ReadBack(PolicyState& policy, const std::string& key) {
    policy.waiting.Remove(key);
    ReadAnew(key);
  }
  // A row in memory, or a report, was deleted (or is about to be); `read_seq` as it has it.
  void NoteDeleted(const std::string& key, kv::CommitSeq read_seq) {
    if (!reading.empty()) reading.erase(key);
    if (read_seq <= watched_to) return;
    deleted_early_keys[key] = read_seq;
    deleted_early.push_back({read_seq, key});
    if (deleted_early.size() > kDeletedEarlyMax) ForgetDeleted();
  }
  // True if the watch's report of commit `seq` is older than the key's deletion.
  bool ToldLate(const std::string& key, kv::CommitSeq seq) const {
    const auto deleted = deleted_early_keys.find(key);
    return deleted != deleted_early_keys.end() && seq <= deleted->second;
  }
  void WatchedTo(kv::CommitSeq seq) {
    watched_to = std::max(watched_to, seq);
    while (!deleted_early.empty() && deleted_early.front().first <= watched_to) ForgetDeleted();
  }
  void ForgetDeleted() {
    const auto& [seq, key] = deleted_early.front();
    const auto found = deleted_early_keys.find(key);
    if (found != deleted_early_keys.end() && found->second == seq) deleted_early_keys.erase(found);
    deleted_early.pop_front();
  }
  // Forgets the policy if nothing of it waits or is held; it must not be used after that.
  void DropIfIdle(PolicyState& policy) {
    if (!policy.idle() || policy.reading || !policy.fetching.empty()) return;
    if (policy.planned != absl::InfiniteFuture()) agenda.erase({policy.planned, policy.uid});
    unread.erase(policy.uid);
    policies.erase(policy.uid);
  }
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_SHARD_STATE_H_
