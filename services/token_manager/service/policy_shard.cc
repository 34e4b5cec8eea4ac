#include "services/token_manager/service/policy_shard.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/runtime/perturb.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/token_manager/base/options.h"

namespace escapement::token_manager {

namespace {

using kv::ColumnFamily;

constexpr size_t kGrantsExpiredMax = 1000;  // grants of one policy in one commit
constexpr size_t kPoliciesDueMax = 10'000;  // in one commit
constexpr size_t kRowsDueMax = 2000;        // rows of one policy in a round; the same of its keys
constexpr absl::Duration kReloadAfter = absl::Seconds(1);
constexpr absl::Duration kReviewEvery = absl::Seconds(1);  // reservations
constexpr absl::Duration kRoomAgain = absl::Milliseconds(100);

constexpr struct {
  const char* name;
  const char* help;
  double (*value)(const PolicyState& policy, absl::Time now);
} kPolicyGauges[] = {
    {"escapement_token_manager_policy_tokens_held", "Tokens of a policy that are out now.",
     [](const PolicyState& policy, absl::Time) { return static_cast<double>(policy.held()); }},
    {"escapement_token_manager_policy_held_back",
     "1 while a pause, the rate or the targets of all its schedules keep a policy from granting "
     "tokens.",
     [](const PolicyState& policy, absl::Time now) {
       RateLimit rate = policy.rate;  // a copy: Allowed moves its time
       const FairQueue& queue = policy.waiting.queue();
       const bool can_grant =
           policy.grants_tokens() && rate.Allowed(now) > 0 && queue.groups_aside() < queue.groups();
       return can_grant ? 0.0 : 1.0;
     }},
    {"escapement_token_manager_policy_limit",
     "max_concurrent of a policy, with its override; +Inf without a limit.",
     [](const PolicyState& policy, absl::Time) {
       const uint64_t limit = policy.limits().max_concurrent;
       return limit == RateLimit::kUnlimited ? std::numeric_limits<double>::infinity()
                                             : static_cast<double>(limit);
     }},
    {"escapement_token_manager_policy_events_waiting",
     "Events of a policy that wait for a token, of the rows in memory.",
     [](const PolicyState& policy, absl::Time) {
       return static_cast<double>(policy.waiting.queue().events());
     }},
    {"escapement_token_manager_policy_newest_token_seconds",
     "How long ago the newest token of a policy that is out was given; 0 without one. While a "
     "policy is full and events wait, it grows only if no token comes back.",
     [](const PolicyState& policy, absl::Time now) {
       const std::optional<int64_t> newest = policy.grants.NewestMicros();
       return newest.has_value() ? std::max(0.0, absl::ToDoubleSeconds(now - FromMicros(*newest)))
                                 : 0.0;
     }},
};

}  // namespace

void ShowPolicyGauges(const std::vector<const PolicyState*>& policies, absl::Time now,
                      TokenManagerMetrics& metrics, std::set<std::string>& shown) {
  absl::Time oldest = absl::InfiniteFuture();
  uint64_t overdue = 0;
  // Events waiting, tokens out (both negative: most come first), name.
  std::vector<std::tuple<int64_t, int64_t, std::string, const PolicyState*>> busy;
  for (const PolicyState* policy : policies) {
    const FairQueue& queue = policy->waiting.queue();
    overdue += policy->grants.Overdue(ToMicros(now));
    oldest = std::min(oldest, queue.oldest_due());
    if (policy->implicit() || !policy->named) continue;
    busy.emplace_back(-static_cast<int64_t>(queue.events()), -static_cast<int64_t>(policy->held()),
                      absl::StrCat("tenants/", policy->tenant, "/policies/", policy->policy_id),
                      policy);
  }
  metrics.oldest_waiting_seconds.Set(oldest < now ? absl::ToDoubleSeconds(now - oldest) : 0);
  metrics.holders_overdue.Set(static_cast<double>(overdue));
  std::sort(busy.begin(), busy.end());
  if (busy.size() > kPolicyGaugesMax) busy.resize(kPolicyGaugesMax);
  std::set<std::string> ended = std::exchange(shown, {});
  for (const auto& [waiting, held, name, policy] : busy) {
    for (const auto& gauge : kPolicyGauges) {
      metrics.registry.GetGauge(gauge.name, gauge.help, {{"policy", name}})
          ->Set(gauge.value(*policy, now));
    }
    ended.erase(name);
    shown.insert(name);
  }
  for (const std::string& name : ended) {
    for (const auto& gauge : kPolicyGauges)
      metrics.registry.RemoveGauge(gauge.name, {{"policy", name}});
  }
}

PolicyShard::PolicyShard(TokenManagerCore& core, const lease::HeldLease& lease, kv::Condition fence,
                         UsedNumbers used)
    : state_(std::make_shared<PolicyShardState>(core, lease, std::move(fence), used)),
      loader_(*state_,
              [this] {
                reloading_ = true;
                state_->core.wake();
              }),
      row_actions_(*state_) {}

PolicyShard::~PolicyShard() {
  const absl::Status lost = absl::UnavailableError("the policy shard is not owned here any more");
  if (round_ != nullptr) {
    for (auto& [done, results] : round_->answers) done(lost);
  }
  for (CompletionInbox::Call& call : calls_) call.done(lost);
  for (CompletionInbox::Call& call : stalled_calls_) call.done(lost);
}

void PolicyShard::Apply(CompletionInbox::Call call) {
  if (!loader_.ready() || draining_ || reloading_)
    return call.done(absl::UnavailableError("the policy shard is being loaded or given up"));
  calls_.push_back(std::move(call));
}

void PolicyShard::OnScheduleChanged(const Uid& schedule) {
  const auto judge = [&](const Uid& uid) {
    PolicyState* policy = state_->Find(uid);
    if (policy == nullptr || policy->waiting.GroupsOf(schedule).empty()) return;
    policy->changed.insert(schedule);
    state_->MakeReady(*policy);
  };
  // They wait under the schedule's own uid, or under the policy of a version that is known.
  judge(schedule);
  const auto state = state_->core.cache.StateIfKnown(schedule);
  if (state == nullptr || !state->record.has_value()) return;
  for (const uint64_t version : {state->record->version(), state->record->version() - 1}) {
    const auto definition = state_->core.cache.DefinitionIfKnown(schedule, version);
    if (definition == nullptr || definition->record == nullptr) continue;
    const storage::v1::DefinitionRecord& record = *definition->record;
    if (!record.throttle().policy_id().empty())
      judge(PolicyUid(record.tenant(), record.throttle().policy_id()));
  }
}

void PolicyShard::Step(absl::Time now) {
  PolicyShardState& state = *state_;
  // Posted, because the release drops the shard.
  if (drained() && release_ != nullptr) state.core.executor->Post(std::exchange(release_, nullptr));
  if (committing() || reloading_ || draining_ || now == absl::InfinitePast() ||
      !state.core.lease_valid(state.shard))
    return;
  state.parts.Trim();
  if (Perturb(state.core.runtime, Site::kTokensPoliciesReread)) state.ReadAllAgain();
  loader_.Step();
  if (!loader_.ready()) return;
  state.WakeSleepers();
  if (std::exchange(state.payloads.arrived, false) || look_again_ <= now) {
    look_again_ = absl::InfiniteFuture();
    for (auto& [key, report] : state.reports.rows()) report.stalled = false;
    for (CompletionInbox::Call& call : std::exchange(stalled_calls_, {}))
      calls_.push_back(std::move(call));
  }
  if (!OnlyNews(now)) Act(now);
  state.core.cache.Fetch();
  state.ReadRecords();
}

void PolicyShard::Act(absl::Time now) {
  news_since_ = absl::InfiniteFuture();
  round_ = std::make_unique<Round>(now);
  TokenRelease actions(*state_, *round_, resends_);
  for (const Uid& uid : std::exchange(state_->counts_due, {})) round_->touched[uid];
  TakeReports(actions, *round_);
  if (actions.no_room()) look_again_ = std::min(look_again_, now + kRoomAgain);
  TakeCalls(actions, *round_);
  TakeDue(actions, *round_);
  Commit(*round_);
  state_->payloads.known.clear();
}

// Nothing is to be done but to note deliveries, and that can wait for a moment.
bool PolicyShard::OnlyNews(absl::Time now) {
  if (!calls_.empty() || !resends_.empty() || !row_actions_.empty() || state_->may_grant() ||
      !state_->counts_due.empty() || state_->next_due() <= now)
    return false;
  bool any = false;
  for (auto& [key, report] : state_->reports.rows()) {
    if (report.stalled) continue;
    if (!report.Parsed().news) return false;
    any = true;
  }
  if (!any || Perturb(state_->core.runtime, Site::kTokensNewsNotedAtOnce)) return false;
  news_since_ = std::min(news_since_, now);
  return now < news_since_ + kNewsDelay;
}

void PolicyShard::TakeReports(TokenRelease& actions, Round& round) {
  auto& rows = state_->reports.rows();
  const size_t entries_max = Perturb(state_->core.runtime, Site::kTokensReportsOfOne)
                                 ? 1
                                 : state_->core.options.report_entries_max;
  for (auto next = rows.begin(); next != rows.end() && !round.Full(entries_max);) {
    const auto row = next++;
    ReportQueue::Report& report = row->second;
    if (report.stalled) continue;
    // Nothing can be made of a broken one, now or later.
    if (report.Parsed().broken) state_->core.metrics.broken_rows.Increment();
    std::vector<bool> effects;
    report.stalled = !actions.ApplyAll(report.Parsed().record->entries(), effects);
    if (report.stalled) {
      report.parsed.reset();
      continue;
    }
    ++round.entries;
    round.base.mutations.push_back(kv::Delete(ColumnFamily::kWaiting, row->first));
    state_->reads.NoteDeleted(row->first, report.read_seq);
    rows.erase(row);
  }
}

void PolicyShard::TakeCalls(TokenRelease& actions, Round& round) {
  TokenManagerMetrics& metrics = state_->core.metrics;
  const size_t entries_max = Perturb(state_->core.runtime, Site::kTokensCallsOfOne)
                                 ? round.entries + 1
                                 : 2 * state_->core.options.report_entries_max;
  while (!calls_.empty() && !round.Full(entries_max)) {
    CompletionInbox::Call call = std::move(calls_.front());
    calls_.pop_front();
    if (!actions.ApplyAll(call.entries, call.effects)) {
      stalled_calls_.push_back(std::move(call));
      continue;
    }
    const auto effects = static_cast<size_t>(absl::c_count(call.effects, true));
    metrics.completions.Increment(effects);
    metrics.completions_void.Increment(call.effects.size() - effects);
    round.answers.push_back({std::move(call.done), std::move(call.effects)});
  }
}

void PolicyShard::TakeDue(TokenRelease& actions, Round& round) {
  // Stored reports are read before any token expires: one of them may say that the work is done.
  if (state_->reports.expects_more()) return;
  const size_t grants_max =
      Perturb(state_->core.runtime, Site::kTokensExpiryOfOne) ? 1 : kGrantsExpiredMax;
  for (size_t n = 0; n < kPoliciesDueMax && state_->next_due() <= round.now; ++n) {
    PolicyState& policy = state_->TakeDue();
    if (policy.grant_next <= round.now) policy.grant_next = absl::InfiniteFuture();
    actions.Expire(policy, grants_max);
    CloseWindows(policy, round);
    TakeLimits(policy, round);
    state_->Revisit(policy);
    if (row_actions_.full() || round.Full(state_->core.options.report_entries_max)) break;
  }
}

// Puts into force what time changes in the limits of the policy and its keys. Takes its sample.
void PolicyShard::TakeLimits(PolicyState& policy, Round& round) {
  if (policy.override_ends() <= round.now) {
    policy.SetLimits(round.now);
    state_->gates.OpenAll(policy.uid);
  }
  auto& closed = policy.closed;
  while (!closed.empty() && closed.begin()->first <= round.now)
    state_->gates.Open({policy.uid, std::move(closed.extract(closed.begin()).value().second)});
  for (const std::string& key : policy.key_rates.TakeFull(round.now, kRowsDueMax)) {
    round.base.mutations.push_back(
        kv::Delete(ColumnFamily::kGrants, KeyRateKey(state_->shard, policy.uid, key)));
  }
  if (policy.TakeSample(round.now)) {
    round.base.mutations.push_back(kv::Put(ColumnFamily::kGrants,
                                           PolicyHistoryKey(state_->shard, policy.uid),
                                           policy.history.SerializeAsString()));
  }
}

// Handles all closing windows at once, so that the records they need are read together. Then rows
// that wait for a window, or for their place in it, get the key that says so.
void PolicyShard::CloseWindows(PolicyState& policy, const Round& round) {
  for (const std::string& key : policy.waiting.ClosedBy(round.now, kRowsDueMax)) {
    if (row_actions_.full()) return;
    row_actions_.CloseWindow(policy, key, *policy.waiting.RowOf(key), round.now);
  }
  for (const std::string& key : policy.waiting.TakeMisplaced(round.now, kRowsDueMax))
    row_actions_.Rekey(policy, key, *policy.waiting.RowOf(key));
}

void PolicyShard::Commit(Round& round) {
  std::vector<kv::Group> groups;
  std::map<Uid, kv::Mutation> counts = CloseBase(*state_, round);
  // In turn, if there is both to do.
  const bool may_grant = state_->may_grant() || !resends_.empty();
  acted_last_ = !row_actions_.empty() && !(acted_last_ && may_grant);
  bool stalled = false;
  if (acted_last_) {
    row_actions_.Build(round, groups);
  } else {
    granting_ = std::make_unique<GrantRound>(*state_, row_actions_, round.now);
    granting_->Build(round, resends_);
    stalled = granting_->stalled();
    for (const auto& [uid, rate] : granting_->draft().counted()) counts.erase(uid);
    if (!granting_->draft().Close(groups.emplace_back())) {
      groups.pop_back();
      granting_.reset();
    }
  }
  for (auto& [uid, put] : counts) round.base.mutations.push_back(std::move(put));
  has_base_ = !round.base.mutations.empty();
  if (has_base_) groups.insert(groups.begin(), std::move(round.base));
  for (const auto& [uid, touched] : round.touched) {
    if (PolicyState* policy = state_->Find(uid)) state_->Plan(*policy);
  }
  if (!groups.empty()) {
    committing_ = true;
    state_->core.metrics.commits.Increment();
    return state_->core.client.CommitAsync(
        {.fence = {state_->fence},
         .groups = std::move(groups),
         .again_without_room = kRetryCommitDelay},
        state_->core.executor,
        state_->WhileOwned(
            [this](const absl::StatusOr<kv::CommitResult>& result) { OnCommitted(result); }));
  }
  for (auto& [done, results] : round.answers) done(std::move(results));
  round_.reset();
  if (!calls_.empty() || !row_actions_.empty() || (state_->may_grant() && !stalled))
    state_->core.wake();
}

void PolicyShard::OnCommitted(const absl::StatusOr<kv::CommitResult>& result) {
  Executor& executor = *state_->core.executor;
  if (!result.ok() || (has_base_ && !result->verdicts[0].applied)) {
    // Usually the lease or the session is lost and the shard is about to be dropped. If not, it is
    // loaded again, because memory may differ from the store.
    executor.PostAfter(kReloadAfter, state_->WhileOwned([this] {
      committing_ = false;
      reloading_ = true;
      state_->core.wake();
    }));
    return;
  }
  committing_ = false;
  const std::unique_ptr<Round> round = std::move(round_);
  round->ended.CountIn(state_->core.statistics, round->micros);
  absl::Span<const kv::Verdict> verdicts = result->verdicts;
  if (has_base_) verdicts.remove_prefix(1);
  if (granting_ == nullptr) {
    row_actions_.OnCommitted(verdicts);
  } else if (verdicts.back().applied) {
    granting_->draft().Applied();
  } else {
    granting_->draft().Refused(verdicts.back().failed_condition, resends_);
  }
  granting_.reset();
  for (const auto& [uid, touched] : round->touched) {
    if (PolicyState* policy = state_->Find(uid)) state_->DropIfIdle(*policy);
  }
  for (auto& [done, results] : round->answers) done(std::move(results));
  reloading_ = reloading_ || Perturb(state_->core.runtime, Site::kTokensShardReloaded);
  state_->core.wake();
}

absl::Time PolicyShard::NextTime(absl::Time now) const {
  if (committing() || reloading_ || draining_) return absl::InfiniteFuture();
  if (!state_->core.lease_valid(state_->shard)) return now + kBlockedStep;
  if (!loader_.ready()) return absl::InfiniteFuture();
  absl::Time next = std::min(look_again_, news_since_ + kNewsDelay);
  // One that has become hopeless is to be given up.
  if (!state_->reservations.empty()) next = std::min(next, now + kReviewEvery);
  return state_->reports.expects_more() ? next : std::min(next, state_->next_due());
}

}  // namespace escapement::token_manager
