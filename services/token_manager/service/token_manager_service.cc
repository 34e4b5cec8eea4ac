#include "services/token_manager/service/token_manager_service.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/process/sharded_service.h"
#include "common/runtime/perturb.h"
#include "common/storage/schedule_table.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/holding/report_queue.h"
#include "services/token_manager/service/policy_shard.h"

namespace escapement::token_manager {
namespace {

// Pause before a blocked shard is stepped again: its lease is not valid, or store time is not known
// yet.
constexpr absl::Duration kBlockedStep = absl::Milliseconds(100);
constexpr size_t kTargetsOpenedMax = 1000;  // in one step
// How often the gauges are set for which all policies are visited.
constexpr absl::Duration kPolicyGaugesEvery = absl::Seconds(2);

}  // namespace

class TokenManagerService::Impl final : public ShardedService, public LocalGrants {
 public:
  Impl(TokenManagerOptions options, kv::KvStore& store, Runtime& runtime)
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
        cache_(client(), executor(), [this] { ForEachShard(&PolicyShard::OnFetched); }),
        queue_shards_(client(), executor(), options_.undelivered_max, [this] { Wake(); }),
        policies_(client(), executor(), /*excluding_own=*/false,
                  {.on_open = [this](const kv::ScanResult&) { OnPoliciesOpen(); },
                   .on_batch = [this](const kv::WatchBatch& batch) { OnPolicies(batch); }}),
        shared_{.options = options_,
                .client = client(),
                .runtime = runtime,
                .executor = executor(),
                .cache = cache_,
                .queue_shards = queue_shards_,
                .backoff = backoff_,
                .metrics = metrics_,
                .lease_valid = [this](uint32_t shard) { return LeaseValid(shard); },
                .wake = [this] { Wake(); },
                .on_row_written = [this](const std::string& key) { OnRowWritten(key); },
                .on_target_open = [this](const std::string& target) { OnTargetOpen(target); }} {}

  // Stops the executor and drops unanswered completions. Called by the service's destructor, not on
  // the executor.
  void StopAll() {
    Stop();
    inbox_.Close();
    for (const auto& [index, shard] : shards_) shard->Abandon();
  }

  void Apply(uint16_t policy_shard, std::vector<storage::v1::GrantReportRecord::Entry> entries,
             Done done) override;

  const TokenManagerMetrics& metrics() const { return metrics_; }

 private:
  // ShardedService
  void OnLayout(const kv::Layout& layout, std::vector<std::optional<std::string>> values) override;
  void OnAcquired(const lease::HeldLease& lease) override { AddShard(lease, {}); }
  void OnLost(uint32_t index) override;
  void OnReleaseWanted(uint32_t index, Closure release) override;
  void OnSessionLost() override {
    cache_.Restart();
    StartWatches();
  }
  void Step() override;
  void OnDrain() override { ForEachShard(&PolicyShard::Drain); }

  // Calls visit(shard), and wakes.
  template <typename Visit>
  void ForEachShard(Visit visit) {
    for (const auto& [index, shard] : shards_) std::invoke(visit, *shard);
    Wake();
  }
  void StartWatches();
  void OnPoliciesOpen();
  void OnPolicies(const kv::WatchBatch& batch);
  void AddShard(const lease::HeldLease& lease, UsedNumbers used);
  void Reload(const lease::HeldLease& lease);
  void OnRowWritten(const std::string& key);
  void OnTargetOpen(const std::string& target) {
    ForEachShard([&](PolicyShard& shard) { shard.state().OnTargetOpen(target); });
  }
  void TakeCompletions();
  std::set<uint16_t> Committing() const;
  void PlanNextStep(absl::Time now);
  void ReleaseDrained();
  void ShowGauges();
  // Sets the gauges of policies, now and every kPolicyGaugesEvery: their ages grow without a step.
  void ShowPolicies();

  const TokenManagerOptions options_;
  TokenManagerMetrics metrics_;
  PolicyGauges policy_gauges_{registry(), metrics_};
  std::atomic<size_t> completions_{0};  // entries of Apply without an answer
  CompletionInbox inbox_;
  RecordCache cache_;
  QueueShards queue_shards_;
  TargetBackoff backoff_;
  WatchedRange policies_;  // their records
  TokenManagerCore shared_;
  std::map<uint32_t, std::unique_ptr<PolicyShard>> shards_;
  std::map<uint32_t, Closure> releases_;  // releases of shards that drain for balance
};

void TokenManagerService::Impl::OnLayout(const kv::Layout& layout,
                                         std::vector<std::optional<std::string>> /*values*/) {
  shared_.layout = layout;
  cache_.NotifyChanges([this](const Uid& schedule) {
    ForEachShard([&](PolicyShard& shard) { shard.OnScheduleChanged(schedule); });
  });
  cache_.Start();
  StartWatches();
  ShowPolicies();
}

void TokenManagerService::Impl::StartWatches() {
  queue_shards_.Start(shared_.layout.queue_shards);
  // Its on_open starts the leases. Behind the policies' records is who refers to them.
  policies_.Start({.cf = kv::ColumnFamily::kPolicies,
                   .begin = std::string(1, '\0'),
                   .end = std::string(1, '\1'),
                   .limit = 1,
                   .keys_only = true});
}

// The watch reports what changes after later reads of records; earlier reads may be old.
void TokenManagerService::Impl::OnPoliciesOpen() {
  ForEachShard([](PolicyShard& shard) { shard.state().ReadAllAgain(); });
  if (!leases_started() && !draining()) StartLeases(shared_.layout.policy_shards);
}

void TokenManagerService::Impl::OnPolicies(const kv::WatchBatch& batch) {
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

void TokenManagerService::Impl::AddShard(const lease::HeldLease& lease, UsedNumbers used) {
  if (draining()) return;  // the drain releases all leases together
  std::unique_ptr<PolicyShard>& shard = shards_[lease.index];
  shard = std::make_unique<PolicyShard>(shared_, lease, Fence(lease.index), used,
                                        [this, lease] { Reload(lease); });
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
  shard->Start();
}

void TokenManagerService::Impl::OnReleaseWanted(uint32_t index, Closure release) {
  const auto shard = shards_.find(index);
  if (shard == shards_.end()) return release();
  shard->second->Drain();
  releases_[index] = std::move(release);
  Wake();
}

void TokenManagerService::Impl::OnLost(uint32_t index) {
  shards_.erase(index);
  releases_.erase(index);
  backoff_.OnShardLost(index, client().NowLow());
  Wake();
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
}

void TokenManagerService::Impl::Reload(const lease::HeldLease& lease) {
  const auto shard = shards_.find(lease.index);
  if (shard == shards_.end() || shard->second->state().lease.epoch != lease.epoch || draining() ||
      releases_.contains(lease.index))
    return;
  AddShard(lease, shard->second->state().used);
  Wake();
}

void TokenManagerService::Impl::OnRowWritten(const std::string& key) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  const auto shard = decoded.has_value() ? shards_.find(decoded->policy_shard) : shards_.end();
  if (shard == shards_.end()) return;
  shard->second->OnOwnRow(key);
  Wake();
}

void TokenManagerService::Impl::Apply(uint16_t policy_shard,
                                      std::vector<storage::v1::GrantReportRecord::Entry> entries,
                                      Done done) {
  const size_t n = entries.size();
  const bool room = completions_.fetch_add(n, std::memory_order_relaxed) < kCompletionsMax &&
                    !Perturb(runtime(), Site::kTokensCompletionRefused);
  auto answer = [this, n,
                 done = std::move(done)](absl::StatusOr<std::vector<bool>> result) mutable {
    completions_.fetch_sub(n, std::memory_order_relaxed);
    done(std::move(result));
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

// Hands completions to their shards, except shards with a commit under way.
void TokenManagerService::Impl::TakeCompletions() {
  inbox_.SetBusy(Committing());
  for (CompletionInbox::Call& call : inbox_.Take()) {
    const auto shard = shards_.find(call.policy_shard);
    if (shard == shards_.end()) {
      call.done(absl::UnavailableError("the policy shard is not owned here"));
    } else {
      shard->second->Apply(std::move(call.entries), std::move(call.done));
    }
  }
}

std::set<uint16_t> TokenManagerService::Impl::Committing() const {
  std::set<uint16_t> committing;
  for (const auto& [index, shard] : shards_) {
    if (shard->committing()) committing.insert(static_cast<uint16_t>(index));
  }
  return committing;
}

void TokenManagerService::Impl::Step() {
  const absl::Time now = client().NowLow();
  if (now != absl::InfinitePast()) {
    for (const std::string& target : backoff_.TakeOpened(now, kTargetsOpenedMax))
      OnTargetOpen(target);
  }
  TakeCompletions();
  for (const Uid& freed : queue_shards_.totals().further.TakeFreed()) {
    // If nothing else of it is left, the next visit forgets it.
    for (const auto& [index, shard] : shards_) {
      if (PolicyState* policy = shard->state().Find(freed)) shard->state().MakeReady(*policy);
    }
  }
  for (const auto& [index, shard] : shards_) shard->Step(now);
  inbox_.SetBusy(Committing());
  ShowGauges();
  PlanNextStep(now);
  ReleaseDrained();
}

void TokenManagerService::Impl::ShowGauges() {
  size_t policies = 0;
  for (const auto& [index, shard] : shards_) policies += shard->state().policies().size();
  const Totals& totals = queue_shards_.totals();
  metrics_.policies_active.Set(static_cast<double>(policies));
  metrics_.rows_in_memory.Set(static_cast<double>(totals.rows));
  metrics_.held.Set(static_cast<double>(totals.held));
  metrics_.undelivered_now.Set(static_cast<double>(totals.undelivered));
  metrics_.completions_waiting.Set(
      static_cast<double>(completions_.load(std::memory_order_relaxed)));
}

void TokenManagerService::Impl::ShowPolicies() {
  const absl::Time now = client().NowLow();
  std::vector<const PolicyState*> policies;
  for (const auto& [index, shard] : shards_) {
    for (const auto& [uid, policy] : shard->state().policies()) policies.push_back(policy.get());
  }
  policy_gauges_.Show(policies, now);
  executor()->PostAfter(kPolicyGaugesEvery, [this] { ShowPolicies(); });
}

void TokenManagerService::Impl::PlanNextStep(absl::Time now) {
  const absl::Duration elapsed = runtime().clock().Elapsed();
  absl::Duration at = absl::InfiniteDuration();
  // Store time runs at most 500 ppm slower than our clock. If the step comes too early, it plans
  // one more short wait.
  const auto at_store_time = [&](absl::Time time) {
    at = std::min(at, elapsed + std::max(time - now, absl::ZeroDuration()));
  };
  bool blocked = false;
  for (const auto& [index, shard] : shards_) {
    if (shard->blocked()) {
      blocked = true;
    } else {
      at_store_time(shard->NextTime());
    }
  }
  if (now != absl::InfinitePast() && !shards_.empty()) at_store_time(backoff_.NextAt(now));
  if (blocked) at = std::min(at, elapsed + kBlockedStep);
  if (planned_step() == at) return;
  // Never at once: work that is due now and was not done waits for another event, which wakes.
  PlanStep(at, std::max(at - elapsed, absl::Microseconds(100)));
}

void TokenManagerService::Impl::ReleaseDrained() {
  if (!draining()) {
    for (auto release = releases_.begin(); release != releases_.end();) {
      const auto shard = shards_.find(release->first);
      if (shard != shards_.end() && !shard->second->drained()) {
        ++release;
        continue;
      }
      // Posted, because the release drops the shard, and this is a step.
      executor()->Post(std::move(release->second));
      release = releases_.erase(release);
    }
    return;
  }
  for (const auto& [index, shard] : shards_) {
    if (!shard->drained()) return;
  }
  ReleaseLeases();
}

TokenManagerService::TokenManagerService(TokenManagerOptions options, kv::KvStore& store,
                                         Runtime& runtime)
    : impl_(std::make_unique<Impl>(std::move(options), store, runtime)) {}

TokenManagerService::~TokenManagerService() { impl_->StopAll(); }

void TokenManagerService::Start() { impl_->Start(); }

void TokenManagerService::Drain(Closure done) { impl_->Drain(std::move(done)); }

bool TokenManagerService::Ready() const { return impl_->Ready(); }
ShardedService& TokenManagerService::sharded() { return *impl_; }

const TokenManagerMetrics& TokenManagerService::metrics() const { return impl_->metrics(); }

LocalGrants& TokenManagerService::grants() { return *impl_; }

namespace {

TokenManagerOptions OptionsFromFlags(const ServiceContext& context) {
  return {.instance = context.instance,
          .dead_instances = context.dead_instances,
          .metrics = &context.metrics,
          .lease_ttl = LeaseTtl(),
          .lease_renew_every = LeaseRenewEvery()};
}

}  // namespace

HostedTokenManager::HostedTokenManager(const ServiceContext& context, kv::KvStore& store)
    : service_(OptionsFromFlags(context), store, context.runtime),
      door_(
          {.instance = context.instance, .local = &service_.grants(), .metrics = &context.metrics},
          store, context.runtime),
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
