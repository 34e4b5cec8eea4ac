#include "services/token_manager/service/token_manager_service.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "common/storage/statistics_table.h"
#include "escapement/storage/v1/target_records.pb.h"

namespace escapement::token_manager {
namespace {

constexpr size_t kTargetsOpenedMax = 1000;  // in one step
constexpr absl::Duration kPolicyGaugesEvery = absl::Seconds(2);

}  // namespace

TokenManagerService::TokenManagerService(TokenManagerOptions options, kv::KvStore& store,
                                         Runtime& runtime)
    : ShardedService({.executor = "token_manager",
                      .session_name = "token manager",
                      .instance = options.instance,
                      .dead_instances = options.dead_instances,
                      .lease_kind = "policy_shard",
                      .lease_ttl = options.lease_ttl,
                      .lease_renew_every = options.lease_renew_every,
                      .metrics = options.metrics},
                     store, runtime),
      options_(std::move(options)),
      metrics_(registry()),
      cache_(client(), executor(),
             [this] { ForEachShard([](PolicyShard& shard) { shard.OnFetched(); }); }),
      statistics_(client(), runtime, executor()),
      queue_shards_(client(), executor(), options_.undelivered_max, [this] { Wake(); }),
      policies_(client(), executor(), /*excluding_own=*/false,
                {.on_open = [this](const kv::ScanResult&) { OnPoliciesOpen(); },
                 .on_batch = [this](const kv::WatchBatch& batch) { OnPolicies(batch); }}),
      target_states_(client(), executor(), /*excluding_own=*/false,
                     {.on_open = [](const kv::ScanResult&) {},
                      .on_batch = [this](const kv::WatchBatch& batch) { OnTargetStates(batch); }}),
      shared_{.options = options_,
              .client = client(),
              .runtime = runtime,
              .executor = executor(),
              .cache = cache_,
              .queue_shards = queue_shards_,
              .backoff = backoff_,
              .metrics = metrics_,
              .statistics = statistics_,
              .lease_valid = [this](uint32_t shard) { return LeaseValid(shard); },
              .wake = [this] { Wake(); },
              .on_row_written = [this](const std::string& key) { OnRowWritten(key); },
              .on_target_open = [this](const std::string& target) { OnTargetOpen(target); }} {}

TokenManagerService::~TokenManagerService() {
  Stop();
  inbox_.Close();
  stopped_ = true;
}

void TokenManagerService::OnLayout(const kv::Layout& layout,
                                   std::vector<std::optional<std::string>> /*values*/) {
  shared_.layout = layout;
  cache_.NotifyChanges([this](const Uid& schedule) {
    ForEachShard([&](PolicyShard& shard) { shard.OnScheduleChanged(schedule); });
  });
  cache_.Start();
  StartWatches();
  ShowPolicies();
  TakeStatistics();
}

void TokenManagerService::StartWatches() {
  queue_shards_.Start(shared_.layout.queue_shards);
  // Its on_open starts the leases. Behind the policies' records is who refers to them.
  policies_.Start({.cf = kv::ColumnFamily::kPolicies,
                   .begin = std::string(1, '\0'),
                   .end = std::string(1, '\1'),
                   .limit = 1,
                   .keys_only = true});
  target_states_.Start({.cf = kv::ColumnFamily::kTargetStates, .limit = 1, .keys_only = true});
}

// The watch reports what changes after later reads of records; earlier reads may be old.
void TokenManagerService::OnPoliciesOpen() {
  ForEachShard([](PolicyShard& shard) { shard.state().ReadAllAgain(); });
  if (!leases_started() && !draining()) StartLeases(shared_.layout.policy_shards);
}

void TokenManagerService::OnPolicies(const kv::WatchBatch& batch) {
  const bool none_told = Perturb(runtime(), Site::kPolicyChangeNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    const std::optional<PolicyName> name = DecodePolicyKey(mutation.key);
    if (!name.has_value()) continue;
    const Uid uid = PolicyUid(name->tenant, name->policy_id);
    const bool deleted = mutation.kind == kv::Mutation::Kind::kDelete;
    ForEachShard([&](PolicyShard& shard) {
      PolicyState* policy = shard.state().Find(uid);
      if (policy == nullptr) return;
      if (!deleted && (mutation.value_omitted || none_told)) {
        shard.state().ReadAgain(*policy);
      } else if (deleted || mutation.kind == kv::Mutation::Kind::kPut) {
        shard.state().OnPolicy(*policy, deleted ? std::nullopt : std::make_optional(mutation.value),
                               batch.seq);
      }
    });
  }
}

void TokenManagerService::OnTargetStates(const kv::WatchBatch& batch) {
  const absl::Time now = client().NowLow();
  if (backoff_.unhealthy() == 0 || now == absl::InfinitePast()) return;
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    const std::optional<TargetRowName> name = DecodeTargetRowKey(mutation.key);
    storage::v1::TargetRowRecord row;
    if (!name.has_value() || mutation.kind != kv::Mutation::Kind::kPut ||
        !row.ParseFromString(mutation.value))
      continue;
    if (name->handler.empty()) {
      backoff_.OnReset(name->target, now);
    } else if (row.state().breaker() == storage::v1::TargetStateRecord::CLOSED &&
               row.state().attempts() > row.state().failures()) {
      backoff_.OnSeenWell(row.state().target_key(), now);
    }
  }
  Wake();
}

void TokenManagerService::AddShard(const lease::HeldLease& lease, UsedNumbers used) {
  if (draining()) return;  // the drain releases all leases together
  shards_[lease.index] = std::make_unique<PolicyShard>(shared_, lease, Fence(lease.index), used);
}

void TokenManagerService::OnReleaseWanted(uint32_t index, Closure release) {
  const auto shard = shards_.find(index);
  if (shard == shards_.end()) return release();
  if (!draining()) shard->second->Drain(std::move(release));
  Wake();
}

void TokenManagerService::OnLost(uint32_t index) {
  shards_.erase(index);
  backoff_.OnShardLost(index, client().NowLow());
  Wake();
}

void TokenManagerService::OnRowWritten(const std::string& key) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  const auto shard = decoded.has_value() ? shards_.find(decoded->policy_shard) : shards_.end();
  if (shard == shards_.end()) return;
  // Read, for it may long have been granted and ended: the answer to the commit came late.
  shard->second->state().reads.Want(key);
  Wake();
}

void TokenManagerService::Apply(uint16_t policy_shard,
                                std::vector<storage::v1::GrantReportRecord::Entry> entries,
                                Done done) {
  const size_t n = entries.size();
  const bool room = completions_.fetch_add(n, std::memory_order_relaxed) < kCompletionsMax &&
                    !Perturb(runtime(), Site::kTokensCompletionRefused);
  auto answer = [this, n,
                 done = std::move(done)](absl::StatusOr<std::vector<bool>> result) mutable {
    completions_.fetch_sub(n, std::memory_order_relaxed);
    if (!stopped_) done(std::move(result));
  };
  if (!room) {
    return executor()->Post([answer = std::move(answer)]() mutable {
      answer(absl::UnavailableError("the token manager has no room"));
    });
  }
  if (inbox_.Add({policy_shard, std::move(entries), std::move(answer)})) {
    executor()->Post([this] {
      if (!step_posted()) Step();
    });
  }
}

std::set<uint16_t> TokenManagerService::Committing() const {
  std::set<uint16_t> committing;
  for (const auto& [index, shard] : shards_) {
    if (shard->committing()) committing.insert(static_cast<uint16_t>(index));
  }
  return committing;
}

void TokenManagerService::Step() {
  const absl::Time now = client().NowLow();
  if (now != absl::InfinitePast()) {
    for (const std::string& target : backoff_.TakeOpened(now, kTargetsOpenedMax))
      OnTargetOpen(target);
  }
  inbox_.SetBusy(Committing());
  for (CompletionInbox::Call& call : inbox_.Take()) {
    const auto shard = shards_.find(call.policy_shard);
    if (shard == shards_.end()) {
      call.done(absl::UnavailableError("the policy shard is not owned here"));
    } else {
      shard->second->Apply(std::move(call));
    }
  }
  for (const Uid& freed : queue_shards_.totals().further.TakeFreed()) {
    // If nothing else of it is left, the next visit forgets it.
    for (const auto& [index, shard] : shards_) {
      if (PolicyState* policy = shard->state().Find(freed)) shard->state().MakeReady(*policy);
    }
  }
  for (const auto& [index, shard] : shards_) {
    if (shard->outdated()) AddShard(shard->state().lease, shard->state().used);
    shard->Step(now);
  }
  inbox_.SetBusy(Committing());
  ShowGauges();
  PlanNextStep(now);
  const bool drained = std::all_of(shards_.begin(), shards_.end(),
                                   [](const auto& shard) { return shard.second->drained(); });
  if (draining() && drained && !std::exchange(wrote_last_, true))
    statistics_.WriteLast(now, [this] { ReleaseLeases(); });
}

void TokenManagerService::ShowGauges() {
  size_t policies = 0;
  for (const auto& [index, shard] : shards_) policies += shard->state().policies().size();
  const Totals& totals = queue_shards_.totals();
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
  metrics_.policies_active.Set(static_cast<double>(policies));
  metrics_.rows_in_memory.Set(static_cast<double>(totals.rows));
  metrics_.held.Set(static_cast<double>(totals.held));
  metrics_.undelivered_now.Set(static_cast<double>(totals.undelivered));
  metrics_.completions_waiting.Set(
      static_cast<double>(completions_.load(std::memory_order_relaxed)));
}

void TokenManagerService::ShowPolicies() {
  std::vector<const PolicyState*> policies;
  for (const auto& [index, shard] : shards_) {
    for (const auto& [uid, policy] : shard->state().policies()) policies.push_back(policy.get());
  }
  ShowPolicyGauges(policies, client().NowLow(), metrics_, policies_shown_);
  executor()->PostAfter(kPolicyGaugesEvery, [this] { ShowPolicies(); });
}

void TokenManagerService::TakeStatistics() {
  const absl::Time now = client().NowLow();
  if (now != absl::InfinitePast()) SamplePolicies(now);
  executor()->PostAfter(statistics_.Step(now), [this] { TakeStatistics(); });
}

void TokenManagerService::SamplePolicies(absl::Time now) {
  for (const auto& [index, shard] : shards_) {
    for (const auto& [uid, policy] : shard->state().policies()) {
      if (policy->implicit() || !policy->known) continue;
      if (policy->waiting.empty() && policy->held() == 0) continue;
      StatisticsSums& sums =
          statistics_.Of(PolicyStatistics(policy->tenant, policy->policy_id))->At(ToMicros(now));
      const uint64_t limit = policy->limits().max_concurrent;
      sums.held = std::max(sums.held, policy->held());
      // It visits every row, so once a minute.
      if (sums.waiting == 0) sums.waiting = policy->waiting.queue().EligibleEvents(now);
      if (limit != RateLimit::kUnlimited)
        sums.max_concurrent = std::max(sums.max_concurrent, limit);
    }
  }
}

void TokenManagerService::PlanNextStep(absl::Time now) {
  absl::Duration delay = absl::InfiniteDuration();
  if (!shards_.empty()) {
    absl::Time next = backoff_.NextAt(now);
    for (const auto& [index, shard] : shards_) next = std::min(next, shard->NextTime(now));
    // Store time runs at most 500 ppm slower than our clock. If the step comes too early, it plans
    // one more short wait.
    delay = now == absl::InfinitePast() ? kBlockedStep : std::max(next - now, absl::ZeroDuration());
  }
  const absl::Duration at = runtime().clock().Elapsed() + delay;
  // Never at once: work that is due now and was not done waits for another event, which wakes.
  if (planned_step() != at) PlanStep(at, std::max(delay, absl::Microseconds(100)));
}

HostedTokenManager::HostedTokenManager(const ServiceContext& context, kv::KvStore& store)
    : service_({.instance = context.instance,
                .dead_instances = context.dead_instances,
                .metrics = &context.metrics,
                .lease_ttl = LeaseTtl(),
                .lease_renew_every = LeaseRenewEvery()},
               store, context.runtime),
      door_({.instance = context.instance, .local = &service_, .metrics = &context.metrics}, store,
            context.runtime),
      gate_(context.instance, store, context.runtime, /*rules=*/nullptr) {}

absl::Status HostedTokenManager::Start() {
  service_.Start();
  door_.Start();
  gate_.Start();
  return absl::OkStatus();
}

void HostedTokenManager::Drain(Closure done) {
  door_.Drain([this, done = std::move(done)]() mutable { service_.Drain(std::move(done)); });
}

}  // namespace escapement::token_manager
