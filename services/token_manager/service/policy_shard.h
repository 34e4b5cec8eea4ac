// PolicyShard: one policy shard that this token manager owns. ShowPolicyGauges: the gauges of its
// busy policies.

#ifndef SERVICES_TOKEN_MANAGER_SERVICE_POLICY_SHARD_H_
#define SERVICES_TOKEN_MANAGER_SERVICE_POLICY_SHARD_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/granting/grant_round.h"
#include "services/token_manager/granting/token_release.h"
#include "services/token_manager/holding/report_queue.h"
#include "services/token_manager/judging/row_actions.h"
#include "services/token_manager/judging/waiting_loader.h"
#include "services/token_manager/waiting/policy_state.h"

namespace escapement::token_manager {

inline constexpr size_t kPolicyGaugesMax = 100;
// Pause before a shard is stepped again whose lease is not valid, or while store time is not known.
inline constexpr absl::Duration kBlockedStep = absl::Milliseconds(100);

// Sets gauges with the label `policy`, and those that are sums of all. To bound the series, at most
// kPolicyGaugesMax policies have gauges: those with most events waiting, then those with most
// tokens out. `shown`: their names, tenants/{tenant}/policies/{policy}.
void ShowPolicyGauges(const std::vector<const PolicyState*>& policies, absl::Time now,
                      TokenManagerMetrics& metrics, std::set<std::string>& shown);

// PolicyShard: one policy shard that this token manager owns, from the acquisition of its lease to
// its loss.
//
// The loader reads holders, waiting rows and reports. Then the shard makes one commit after the
// other: first releases, then either row actions or grants. Memory changes while one is built. If
// it is not known to have applied, the shard is loaded again (or was lost).
//
// Threads: one, the token manager's executor.
class PolicyShard {
 public:
  // `core` outlives it. `used`: of this lease's epoch, by an earlier PolicyShard.
  PolicyShard(TokenManagerCore& core, const lease::HeldLease& lease, kv::Condition fence,
              UsedNumbers used);
  // Completions that are not answered yet are, with UNAVAILABLE.
  ~PolicyShard();

  void Step(absl::Time now);
  // As LocalGrants::Apply, with the next Step.
  void Apply(CompletionInbox::Call call);

  // Records of schedules that were asked for have been read.
  void OnFetched() {
    state_->RecordsRead();
    look_again_ = absl::InfinitePast();
  }
  // The schedule was changed: its rows that wait are judged soon, whenever they are due.
  void OnScheduleChanged(const Uid& schedule);

  // Grants nothing more and begins no commit; drained() once none is under way. Then a Step posts
  // `release`, if there is one.
  void Drain(Closure release) {
    draining_ = true;
    release_ = std::move(release);
  }
  bool drained() const { return draining_ && !committing(); }
  // A commit is under way: until it ends, which wakes, Step does nothing.
  bool committing() const { return committing_; }
  // Memory may differ from the store: a new one must take its place.
  bool outdated() const { return reloading_ && !committing() && !draining_; }

  // After a Step at `now`: the store's time at which the next one has something to do.
  // InfiniteFuture: something will wake.
  absl::Time NextTime(absl::Time now) const;

  PolicyShardState& state() { return *state_; }

 private:
  bool OnlyNews(absl::Time now);
  void Act(absl::Time now);
  void TakeReports(TokenRelease& actions, Round& round);
  void TakeCalls(TokenRelease& actions, Round& round);
  void TakeDue(TokenRelease& actions, Round& round);
  void CloseWindows(PolicyState& policy, const Round& round);
  void TakeLimits(PolicyState& policy, Round& round);
  void Commit(Round& round);
  void OnCommitted(const absl::StatusOr<kv::CommitResult>& result);

  std::shared_ptr<PolicyShardState> state_;
  WaitingLoader loader_;
  RowActions row_actions_;
  std::deque<CompletionInbox::Call> calls_;
  std::vector<CompletionInbox::Call> stalled_calls_;  // wait for a record
  std::deque<Resend> resends_;
  absl::Time look_again_ = absl::InfiniteFuture();  // at what is stalled
  absl::Time news_since_ = absl::InfiniteFuture();  // that nobody waits for; InfiniteFuture: none

  // State of the commit under way.
  bool committing_ = false;
  std::unique_ptr<Round> round_;
  std::unique_ptr<GrantRound> granting_;  // null: it has no grants
  bool has_base_ = false;
  bool acted_last_ = false;  // the last round has built row actions, and no grants

  bool reloading_ = false;
  bool draining_ = false;
  Closure release_;  // see Drain
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SERVICE_POLICY_SHARD_H_
