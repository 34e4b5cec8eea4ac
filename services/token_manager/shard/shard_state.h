// The state that the parts of one owned policy shard share, and the state that all shards of a
// token manager share.
//
// Threads: one, the token manager's executor.

#ifndef SERVICES_TOKEN_MANAGER_SHARD_SHARD_STATE_H_
#define SERVICES_TOKEN_MANAGER_SHARD_SHARD_STATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/records/record_cache.h"
#include "common/runtime/runtime.h"
#include "common/statistics/minute_sums.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/holding/report_queue.h"
#include "services/token_manager/shard/limit_gates.h"
#include "services/token_manager/shard/pending_reads.h"
#include "services/token_manager/shard/queue_shards.h"
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
  MinuteSums& statistics;
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

// Reason of FairQueue::Next: what the schedule's rows are judged by is being read.
inline constexpr char kBeingRead[] = "?";

class PolicyShardState : public std::enable_shared_from_this<PolicyShardState> {
 public:
  PolicyShardState(TokenManagerCore& core, const lease::HeldLease& lease, kv::Condition fence,
                   UsedNumbers used);

  TokenManagerCore& core;
  const uint16_t shard;
  const lease::HeldLease lease;
  const kv::Condition fence;
  UsedNumbers used;
  const size_t group_rows_max;    // as TokenManagerOptions'
  uint16_t last_queue_shard = 0;  // where the last claim went
  ReportQueue reports;
  RunParts parts;
  Payloads payloads;
  LimitGates gates;
  Reservations reservations;
  RowReads reads;
  // Policies whose counts were in a group that was refused: the next round writes them.
  std::set<Uid> counts_due;

  // `then` as a callback of the store or the executor. It does nothing once the state is gone: the
  // lease was lost.
  template <typename Then>
  auto WhileOwned(Then then) {
    return [weak = weak_from_this(), then = std::move(then)](auto&&... results) mutable {
      if (const auto state = weak.lock()) then(std::forward<decltype(results)>(results)...);
    };
  }

  // --- policies of which something waits or is held ---
  const absl::btree_map<Uid, std::unique_ptr<PolicyState>>& policies() const { return policies_; }
  // nullptr: nothing of it waits or is held.
  PolicyState* Find(const Uid& uid) {
    const auto found = policies_.find(uid);
    return found == policies_.end() ? nullptr : found->second.get();
  }
  PolicyState& At(const Uid& uid);
  // The policy of a further limit of events that wait under another one.
  PolicyState& FurtherPolicy(const RowSource& source, const FurtherLimit& limit);
  // Calls visit(policy, key, weight) for each limit of events that wait under `policy`.
  template <typename Visit>
  void ForEachLimit(PolicyState& policy, const RowSource& source, Visit visit) {
    visit(policy, source.key(), source.weight);
    for (const FurtherLimit& limit : source.further())
      visit(FurtherPolicy(source, limit), limit.key, limit.weight);
  }
  // Forgets the policy if nothing of it waits or is held.
  void DropIfIdle(PolicyState& policy);

  // --- when policies are visited ---
  void MakeReady(PolicyState& policy) {
    if (!std::exchange(policy.ready, true)) ready_.push_back(policy.uid);
  }
  size_t ready() const { return ready_.size(); }  // policies
  // The first of them, which is visited now. nullptr: nothing of it is left.
  PolicyState* TakeReady();
  bool may_grant() const { return !ready_.empty() || gates.open(); }
  // Its place in the agenda (when time lets something happen) as its state is now.
  void Plan(PolicyState& policy);
  void Revisit(PolicyState& policy) {
    MakeReady(policy);
    Plan(policy);
  }
  // Events that keep their tokens are tried again in time, if a policy has changed since.
  void WakeSleepers();
  absl::Time next_due() const { return FirstOf(agenda_); }
  // The first policy in the agenda, which leaves it.
  PolicyState& TakeDue();

  // --- limits and targets without room ---
  // Tokens of these limits may be free.
  void OpenLimits(const std::vector<LimitName>& limits) {
    for (const LimitName& limit : limits) gates.Open(limit);
  }
  // The same for the policy and one key of it.
  void OpenLimits(const Uid& policy, const std::string& key) {
    if (!gates.empty()) OpenLimits({{policy}, {policy, key}});
  }
  // The policy passes over schedules for this target, or key that is paused, until it is open.
  void PassOver(const PolicyState& policy, const std::string& target) {
    aside_[target].insert(policy.uid);
  }
  void OnTargetOpen(const std::string& target);

  // --- records and counts ---
  // The policy's record is to be read, unless it is being read.
  void WantRecord(const PolicyState& policy) {
    if (!policy.reading) unread_.insert(policy.uid);
  }
  // Rows of this policy that could not be judged because a record of the schedule was missing are
  // judged again when it has been read.
  friend void AwaitRecords(PolicyShardState& state, PolicyState& policy, const Uid& schedule) {
    policy.fetching.insert(schedule);
    state.fetching_.insert(policy.uid);
  }
  size_t awaiting() const { return fetching_.size(); }  // policies
  // Everything that was waited for may be there.
  void RecordsRead();
  // The policy was changed, or deleted (nullopt): a watch of the service keeps records current.
  void OnPolicy(PolicyState& policy, const std::optional<std::string>& value, kv::CommitSeq seq);
  // A commit found the record not to be as it was read, or the watch has missed something.
  void ReadAgain(PolicyState& policy);
  void ReadAllAgain() {
    for (const auto& [uid, policy] : policies_) ReadAgain(*policy);
  }
  // Reads some of the records, counts, parts and payloads that are wanted.
  void ReadRecords();
  // True if all that are wanted have been read (but payloads).
  bool records_read() const {
    return !reading_policies_ && !reading_parts_ && unread_.empty() && !parts.wanted();
  }
  // Pins or unpins the counts that the row's events change.
  void PinCounts(const RowSource& source) {
    ForEachCounts(source, [this](const std::string& key) { parts.Pin(key); });
  }
  void UnpinCounts(const RowSource& source) {
    ForEachCounts(source, [this](const std::string& key) { parts.Unpin(key); });
  }
  // False: they are being read, and the policy waits for them (AwaitRecords).
  bool CountsKnown(PolicyState& policy, const RowSource& source) {
    bool known = true;
    ForEachCounts(source, [&](const std::string& key) { known &= parts.Find(key) != nullptr; });
    if (!known) AwaitRecords(*this, policy, source.group);
    return known;
  }

  // --- rows ---
  // The row in memory, and its policy; nullptr: it is not.
  std::pair<PolicyState*, WaitingRow*> FindRow(const std::string& key);
  // A row as it is in the store; false if it makes no sense.
  bool AddRow(const std::string& key, const std::string& value, kv::CommitSeq read_seq);
  // The row is to be read, and is not in memory until then.
  void ReadBack(PolicyState& policy, const std::string& key);
  // The group may have to be read on.
  void MayBeHungry(const Uid& policy, const GroupKey& group) { hungry_.insert({policy, group}); }
  // A row of the group that is only in the store may be able to go now.
  void MayReadOn(const PolicyState& policy, const GroupKey& key);
  // The groups that may have to be read on take turns: some may be read on and on.
  std::optional<std::pair<Uid, GroupKey>> TakeHungry();

 private:
  void ReadPolicies();
  void ReadParts();
  void ReadPayloads();
  // `reading` is true until the answer; `then` takes it.
  template <typename Then>
  void Read(std::vector<kv::Key> keys, bool& reading, Then then);
  template <typename Visit>
  void ForEachCounts(const RowSource& source, Visit visit) const {
    if (source.one_off()) return;
    if (!source.part_key.empty()) visit(source.part_key);
    visit(source.counts_key);
  }

  absl::btree_map<Uid, std::unique_ptr<PolicyState>> policies_;
  uint64_t policies_dropped_ = 0;
  std::deque<Uid> ready_;
  Times<Uid> agenda_;
  std::map<std::string, std::set<Uid>> aside_;  // by target or paused key
  std::set<Uid> unread_;                        // policies whose records are to be read
  std::set<Uid> fetching_;                      // policies that await records
  bool wake_sleepers_ = false;
  bool reading_policies_ = false;
  bool reading_parts_ = false;
  bool reading_payloads_ = false;
  std::set<std::pair<Uid, GroupKey>> hungry_;
  std::pair<Uid, GroupKey> last_read_on_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SHARD_SHARD_STATE_H_
