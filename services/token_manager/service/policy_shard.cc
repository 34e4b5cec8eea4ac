#include "services/token_manager/service/policy_shard.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

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
constexpr size_t kClosingsMax = 2000;       // rows of one policy in a round
constexpr size_t kKeysFullMax = 2000;       // keys of one policy in a round
constexpr absl::Duration kReloadAfter = absl::Seconds(1);
constexpr absl::Duration kReviewEvery = absl::Seconds(1);  // reservations
constexpr absl::Duration kRoomAgain = absl::Milliseconds(100);

constexpr const char* kHeld = "escapement_token_manager_policy_tokens_held";
constexpr const char* kHeldBack = "escapement_token_manager_policy_held_back";
constexpr const char* kLimit = "escapement_token_manager_policy_limit";
constexpr const char* kNewest = "escapement_token_manager_policy_newest_token_seconds";
constexpr const char* kWaiting = "escapement_token_manager_policy_events_waiting";

// True if the policy could grant nothing now, even with free tokens.
bool HeldBack(const PolicyState& policy, absl::Time now) {
  RateLimit rate = policy.rate;  // a copy: Allowed moves its time
  const FairQueue& queue = policy.waiting.queue();
  return !policy.grants_tokens() || rate.Allowed(now) == 0 ||
         queue.groups_aside() == queue.groups();
}

bool IsNews(ReportQueue::Report& report) {
  if (report.news.has_value()) return *report.news;
  storage::v1::GrantReportRecord record;
  report.news =
      record.ParseFromString(report.value) &&
      std::all_of(record.entries().begin(), record.entries().end(), [](const auto& entry) {
        return entry.kind() == storage::v1::GrantReportRecord::DELIVERED;
      });
  return *report.news;
}

}  // namespace

void PolicyGauges::Show(const std::vector<const PolicyState*>& policies, absl::Time now) {
  absl::Time oldest = absl::InfiniteFuture();
  uint64_t overdue = 0;
  // Events waiting, tokens out, name.
  using Busy = std::tuple<uint64_t, uint64_t, std::string, const PolicyState*>;
  std::vector<Busy> busy;
  for (const PolicyState* policy : policies) {
    const FairQueue& queue = policy->waiting.queue();
    overdue += policy->grants.Overdue(ToMicros(now));
    oldest = std::min(oldest, queue.oldest_due());
    if (!policy->implicit() && policy->named)
      busy.emplace_back(queue.events(), policy->held(),
                        absl::StrCat("tenants/", policy->tenant, "/policies/", policy->policy_id),
                        policy);
  }
  metrics_.oldest_waiting_seconds.Set(oldest < now ? absl::ToDoubleSeconds(now - oldest) : 0);
  metrics_.holders_overdue.Set(static_cast<double>(overdue));
  std::sort(busy.begin(), busy.end(), [](const Busy& a, const Busy& b) {
    return std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(a)) <
           std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(b));
  });
  if (busy.size() > kPolicyGaugesMax) busy.resize(kPolicyGaugesMax);
  std::set<std::string> shown;
  for (const auto& [waiting, held, name, policy] : busy) {
    Set(name, *policy, now);
    shown.insert(name);
  }
  for (const std::string& name : shown_) {
    if (shown.contains(name)) continue;
    for (const char* gauge : {kHeld, kHeldBack, kLimit, kNewest, kWaiting})
      registry_.RemoveGauge(gauge, {{"policy", name}});
  }
  shown_ = std::move(shown);
}

void PolicyGauges::Set(const std::string& name, const PolicyState& policy, absl::Time now) {
  const auto set = [&](const char* gauge, const char* help, double value) {
    registry_.GetGauge(gauge, help, {{"policy", name}})->Set(value);
  };
  set(kHeld, "Tokens of a policy that are out now.", static_cast<double>(policy.held()));
  set(kHeldBack,
      "1 while a pause, the rate or the targets of all its schedules keep a policy from granting "
      "tokens.",
      HeldBack(policy, now) ? 1 : 0);
  const uint64_t limit = policy.limits().max_concurrent;
  set(kLimit, "max_concurrent of a policy, with its override; +Inf without a limit.",
      limit == RateLimit::kUnlimited ? std::numeric_limits<double>::infinity()
                                     : static_cast<double>(limit));
  set(kWaiting, "Events of a policy that wait for a token, of the rows in memory.",
      static_cast<double>(policy.waiting.queue().events()));
  const std::optional<int64_t> newest = policy.grants.NewestMicros();
  set(kNewest,
      "How long ago the newest token of a policy that is out was given; 0 without one. While a "
      "policy is full and events wait, it grows only if no token comes back.",
      newest.has_value() ? std::max(0.0, absl::ToDoubleSeconds(now - FromMicros(*newest))) : 0);
}

PolicyShard::PolicyShard(TokenManagerCore& core, const lease::HeldLease& lease, kv::Condition fence,
                         UsedNumbers used, std::function<void()> reload)
    : state_(std::make_shared<PolicyShardState>(core, lease, std::move(fence), used)),
      loader_(*state_, [this] { Reload(); }),
      row_actions_(*state_),
      reload_(std::move(reload)) {}

PolicyShard::~PolicyShard() {
  const absl::Status lost = absl::UnavailableError("the policy shard is not owned here any more");
  for (auto& [done, results] : answers_) done(lost);
  for (Call& call : calls_) call.done(lost);
  for (Call& call : stalled_calls_) call.done(lost);
}

void PolicyShard::Apply(Entries entries, LocalGrants::Done done) {
  if (!loader_.ready() || draining_ || reloading_)
    return done(absl::UnavailableError("the policy shard is being loaded or given up"));
  calls_.push_back({.entries = std::move(entries), .done = std::move(done)});
}

void PolicyShard::OnFetched() {
  state_->RecordsRead();
  Unstall();
}

void PolicyShard::Unstall() {
  UnstallReports();
  for (Call& call : std::exchange(stalled_calls_, {})) calls_.push_back(std::move(call));
}

void PolicyShard::UnstallReports() {
  look_again_ = absl::InfiniteFuture();
  for (auto& [key, report] : state_->reports.rows()) report.stalled = false;
}

void PolicyShard::OnScheduleChanged(const Uid& schedule) {
  // They wait under the policy of a version that is known, or under the schedule's own uid.
  std::set<Uid> candidates = {schedule};
  const RecordCache& cache = state_->core.cache;
  const auto state = cache.StateIfKnown(schedule);
  if (state != nullptr && state->record.has_value()) {
    const uint64_t version = state->record->version();
    for (const uint64_t of : {version, version - 1}) {
      const auto definition = cache.DefinitionIfKnown(schedule, of);
      if (definition == nullptr || definition->record == nullptr) continue;
      const storage::v1::DefinitionRecord& record = *definition->record;
      if (!record.throttle().policy_id().empty())
        candidates.insert(PolicyUid(record.tenant(), record.throttle().policy_id()));
    }
  }
  for (const Uid& uid : candidates) {
    PolicyState* policy = state_->Find(uid);
    if (policy == nullptr || policy->waiting.GroupsOf(schedule).empty()) continue;
    policy->changed.insert(schedule);
    state_->MakeReady(*policy);
  }
}

void PolicyShard::Reload() {
  if (std::exchange(reloading_, true)) return;
  // Not from within a call of its own; a commit under way is waited for.
  if (!committing()) state_->core.executor->Post([reload = reload_] { reload(); });
}

void PolicyShard::Step(absl::Time now) {
  blocked_ = false;
  if (committing() || reloading_ || draining_) return;
  if (now == absl::InfinitePast() || !state_->core.lease_valid(state_->shard)) {
    blocked_ = true;
    return;
  }
  state_->parts.Trim();
  if (Perturb(state_->core.runtime, Site::kTokensPoliciesReread)) state_->ReadAllAgain();
  loader_.Step();
  if (!loader_.ready()) return;
  if (std::exchange(state_->payloads.arrived, false)) Unstall();
  if (look_again_ <= now) UnstallReports();
  reviewed_ = now;
  if (OnlyNews(now)) {
    state_->core.cache.Fetch();
    return state_->ReadRecords();
  }
  news_since_ = absl::InfiniteFuture();
  Round round(now);
  TokenRelease actions(*state_, round, resends_);
  for (const Uid& uid : std::exchange(state_->counts_due, {})) round.touched[uid];
  TakeReports(actions, round);
  if (actions.no_room()) look_again_ = std::min(look_again_, now + kRoomAgain);
  TakeCalls(actions, round);
  TakeDue(actions, round);
  Commit(round);
  state_->payloads.known.clear();
  state_->core.cache.Fetch();
  state_->ReadRecords();
}

// Nothing is to be done but to note deliveries, and that can wait for a moment.
bool PolicyShard::OnlyNews(absl::Time now) {
  if (!calls_.empty() || !resends_.empty() || !row_actions_.empty() || state_->may_grant() ||
      !state_->counts_due.empty() || state_->next_due() <= now)
    return false;
  bool any = false;
  for (auto& [key, report] : state_->reports.rows()) {
    if (report.stalled) continue;
    if (!IsNews(report)) return false;
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
    storage::v1::GrantReportRecord record;
    if (!record.ParseFromString(report.value)) {
      // Nothing can be made of it, now or later.
      state_->core.metrics.broken_rows.Increment();
      record.Clear();
    }
    std::vector<bool> effects;
    report.stalled = !actions.ApplyAll(record.entries(), effects);
    if (report.stalled) continue;
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
    Call call = std::move(calls_.front());
    calls_.pop_front();
    if (!actions.ApplyAll(call.entries, call.effects)) {
      stalled_calls_.push_back(std::move(call));
      continue;
    }
    for (const bool effect : call.effects)
      (effect ? metrics.completions : metrics.completions_void).Increment();
    round.answers.push_back({std::move(call.done), std::move(call.effects)});
  }
}

void PolicyShard::TakeDue(TokenRelease& actions, Round& round) {
  // Stored reports are read before any token expires: one of them may say that the work is done.
  if (state_->reports.expects_more()) {
    if (state_->reports.hungry()) state_->core.wake();
    return;
  }
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
  for (const std::string& key : policy.key_rates.TakeFull(round.now, kKeysFullMax)) {
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
  for (const std::string& key : policy.waiting.ClosedBy(round.now, kClosingsMax)) {
    if (row_actions_.full()) return;
    row_actions_.CloseWindow(policy, key, *policy.waiting.RowOf(key), round.now);
  }
  for (const std::string& key : policy.waiting.TakeMisplaced(round.now, kClosingsMax))
    row_actions_.Rekey(policy, key, *policy.waiting.RowOf(key));
}

void PolicyShard::Commit(Round& round) {
  auto commit = std::make_unique<kv::Commit>();
  commit->fence = {state_->fence};
  std::vector<kv::Group>& groups = commit->groups;
  groups.emplace_back();  // for the base
  std::map<Uid, kv::Mutation> counts = CloseBase(*state_, round);
  granting_ = std::make_unique<GrantRound>(*state_, row_actions_, round.now);
  has_grants_ = false;
  // In turn, if there is both to do.
  const bool may_grant = state_->may_grant() || !resends_.empty();
  acted_last_ = !row_actions_.empty() && !(acted_last_ && may_grant);
  if (acted_last_) {
    row_actions_.Build(round, groups);
  } else {
    granting_->Build(round, resends_);
    kv::Group grants;
    has_grants_ = granting_->draft().Close(grants);
    if (has_grants_) groups.push_back(std::move(grants));
  }
  for (auto& [uid, put] : counts) {
    if (!granting_->draft().counted().contains(uid)) round.base.mutations.push_back(std::move(put));
  }
  has_base_ = !round.base.mutations.empty();
  groups.front() = std::move(round.base);
  if (!has_base_) groups.erase(groups.begin());
  touched_.clear();
  for (const auto& [uid, touched] : round.touched) {
    touched_.push_back(uid);
    if (PolicyState* policy = state_->Find(uid)) state_->Plan(*policy);
  }
  if (!groups.empty()) {
    answers_ = std::move(round.answers);
    commit_ = std::move(commit);
    return Send();
  }
  for (auto& [done, results] : round.answers) done(std::move(results));
  const bool more =
      !calls_.empty() || !row_actions_.empty() || (state_->may_grant() && !granting_->stalled());
  granting_.reset();
  if (more) state_->core.wake();
}

void PolicyShard::Send() {
  state_->core.metrics.commits.Increment();
  // A copy is kept: it may have to be sent again.
  state_->core.client.CommitAsync(
      kv::Commit(*commit_), state_->core.executor,
      state_->WhileOwned(
          [this](const absl::StatusOr<kv::CommitResult>& result) { OnCommitted(result); }));
}

void PolicyShard::OnCommitted(const absl::StatusOr<kv::CommitResult>& result) {
  Executor& executor = *state_->core.executor;
  if (absl::IsResourceExhausted(result.status())) {
    executor.PostAfter(kRetryCommitDelay, state_->WhileOwned([this] { Send(); }));
  } else if (!result.ok() || (has_base_ && !result->verdicts[0].applied)) {
    // Usually the lease or the session is lost and the shard is about to be dropped. If not, it is
    // loaded again, because memory may differ from the store.
    executor.PostAfter(kReloadAfter, state_->WhileOwned([this] {
      commit_.reset();
      reloading_ = false;
      Reload();
    }));
  } else {
    Finish(*result);
  }
}

void PolicyShard::Finish(const kv::CommitResult& result) {
  commit_.reset();
  auto answers = std::exchange(answers_, {});
  absl::Span<const kv::Verdict> verdicts = result.verdicts;
  if (has_base_) verdicts.remove_prefix(1);
  if (has_grants_) verdicts.remove_suffix(1);
  row_actions_.OnCommitted(verdicts);
  if (has_grants_) {
    if (result.verdicts.back().applied) {
      granting_->draft().Applied();
    } else {
      granting_->draft().Refused(result.verdicts.back().failed_condition, resends_);
    }
  }
  granting_.reset();
  for (const Uid& uid : touched_) {
    if (PolicyState* policy = state_->Find(uid)) state_->DropIfIdle(*policy);
  }
  for (auto& [done, results] : answers) done(std::move(results));
  if (reloading_ || Perturb(state_->core.runtime, Site::kTokensShardReloaded)) {
    reloading_ = false;
    Reload();
  }
  state_->core.wake();
}

absl::Time PolicyShard::NextTime() const {
  if (committing() || reloading_ || draining_ || !loader_.ready()) return absl::InfiniteFuture();
  absl::Time next = std::min(look_again_, news_since_ + kNewsDelay);
  // One that has become hopeless is to be given up.
  if (!state_->reservations.empty()) next = std::min(next, reviewed_ + kReviewEvery);
  return state_->reports.expects_more() ? next : std::min(next, state_->next_due());
}

void PolicyShard::Abandon() {
  answers_.clear();
  calls_.clear();
  stalled_calls_.clear();
}

}  // namespace escapement::token_manager
