// PolicyShard: one policy shard that this token manager owns. PolicyGauges: the gauges of its busy
// policies.

#ifndef SERVICES_TOKEN_MANAGER_SERVICE_POLICY_SHARD_H_
#define SERVICES_TOKEN_MANAGER_SERVICE_POLICY_SHARD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/tokens/token_door.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/granting/grant_round.h"
#include "services/token_manager/granting/token_release.h"
#include "services/token_manager/judging/row_actions.h"
#include "services/token_manager/judging/waiting_loader.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {

inline constexpr size_t kPolicyGaugesMax = 100;

// PolicyGauges: for each policy that is busy, its limit, its tokens out and the age of the newest,
// and its waiting events, as gauges with the label `policy`; and how old the oldest waiting event
// is.
//
// There are gauges for at most kPolicyGaugesMax policies: those with most events waiting, then
// those with most tokens out. So the number of series is bounded, and the policies where most
// events wait are shown.
//
// Threads: one, the token manager's executor.
class PolicyGauges {
 public:
  // Both must outlive it.
  PolicyGauges(Metrics& registry, TokenManagerMetrics& metrics)
      : registry_(registry), metrics_(metrics) {}

  // Sets the gauges; `policies` are all that are busy.
  void Show(const std::vector<const PolicyState*>& policies, absl::Time now);

 private:
  void Set(const std::string& name, const PolicyState& policy, absl::Time now);

  Metrics& registry_;
  TokenManagerMetrics& metrics_;
  std::set<std::string> shown_;  // tenants/{tenant}/policies/{policy}
};

// PolicyShard: one policy shard that this token manager owns, from the acquisition of its lease to
// its loss.
//
// The loader reads holders, waiting rows and reports. Then the shard makes one commit after the
// other: first releases, then either row actions or grants. Memory changes while a commit is built.
// If the commit is not known to have applied, the shard is loaded again (or was lost).
//
// Threads: one, the token manager's executor.
class PolicyShard {
 public:
  using Entries = std::vector<storage::v1::GrantReportRecord::Entry>;

  // `core` outlives it. `used`: of this lease's epoch, by an earlier PolicyShard. `reload`: asks to
  // be replaced by a new one; called at most once, not from within a call of it.
  PolicyShard(TokenManagerCore& core, const lease::HeldLease& lease, kv::Condition fence,
              UsedNumbers used, std::function<void()> reload);
  // Completions that are not answered yet are, with UNAVAILABLE.
  ~PolicyShard();

  void Start() { loader_.Start(); }
  void Step(absl::Time now);
  // As LocalGrants::Apply, with the next Step.
  void Apply(Entries entries, LocalGrants::Done done);

  // Records of schedules that were asked for have been read.
  void OnFetched();
  // The schedule was changed: its rows that wait are judged soon, whenever they are due.
  void OnScheduleChanged(const Uid& schedule);
  void OnOwnRow(const std::string& key) { loader_.OnOwnRow(key); }

  // Grants nothing more and begins no commit; drained() once none is under way.
  void Drain() { draining_ = true; }
  bool drained() const { return draining_ && !committing(); }
  // A commit is under way: until it ends, which wakes, Step does nothing.
  bool committing() const { return commit_ != nullptr; }

  // The store's time at which Step has something to do; InfiniteFuture: something will wake.
  absl::Time NextTime() const;
  // True if the last Step could not do its work. Step must then be called again in a while.
  bool blocked() const { return blocked_; }
  // Drops completions that are not answered yet. The process ends, so they never will be.
  void Abandon();

  PolicyShardState& state() { return *state_; }

 private:
  struct Call {
    Entries entries;
    LocalGrants::Done done;
    std::vector<bool> effects = {};  // by entry; set for those that have been applied
  };
  bool OnlyNews(absl::Time now);
  void Unstall();
  void UnstallReports();
  void TakeReports(TokenRelease& actions, Round& round);
  void TakeCalls(TokenRelease& actions, Round& round);
  void TakeDue(TokenRelease& actions, Round& round);
  void CloseWindows(PolicyState& policy, const Round& round);
  void TakeLimits(PolicyState& policy, Round& round);
  void Commit(Round& round);
  void Send();
  void OnCommitted(const absl::StatusOr<kv::CommitResult>& result);
  void Finish(const kv::CommitResult& result);
  void Reload();

  std::shared_ptr<PolicyShardState> state_;
  WaitingLoader loader_;
  RowActions row_actions_;
  std::function<void()> reload_;
  std::deque<Call> calls_;
  std::vector<Call> stalled_calls_;  // wait for a record
  std::deque<Resend> resends_;
  absl::Time reviewed_ = absl::InfinitePast();      // the reservations
  absl::Time look_again_ = absl::InfiniteFuture();  // at reports that no queue shard has room for
  absl::Time news_since_ = absl::InfiniteFuture();  // that nobody waits for; InfiniteFuture: none

  // State of the commit under way.
  std::unique_ptr<const kv::Commit> commit_;
  std::vector<std::pair<LocalGrants::Done, std::vector<bool>>> answers_;
  std::unique_ptr<GrantRound> granting_;
  bool has_base_ = false;
  bool has_grants_ = false;
  bool acted_last_ = false;   // the last round has built row actions, and no grants
  std::vector<Uid> touched_;  // policies: may be idle after it

  bool reloading_ = false;
  bool draining_ = false;
  bool blocked_ = false;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SERVICE_POLICY_SHARD_H_
