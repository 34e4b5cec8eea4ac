#include "services/token_manager/token_manager_service.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/runtime/perturb.h"
#include "common/storage/policy_table.h"
#include "services/token_manager/holding/completion_inbox.h"
#include "services/token_manager/judging/policy_watch.h"
#include "services/token_manager/policy_shard.h"

namespace escapement::token_manager {
namespace {

constexpr absl::Duration kAgain = absl::Seconds(1);
// A shard whose lease cannot be trusted, or for which the store has not told the time yet.
constexpr absl::Duration kBlockedStep = absl::Milliseconds(100);
constexpr size_t kTargetsOpenedMax = 1000;  // in one step

}  // namespace

class TokenManagerService::Core final : public LocalGrants {
 public:
  Core(TokenManagerOptions options, kv::KvStore& store, Runtime& runtime)
      : options_(std::move(options)),
        runtime_(runtime),
        executor_(runtime.NewExecutor("token_manager")),
        own_metrics_(options_.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
        metrics_(options_.metrics == nullptr ? *own_metrics_ : *options_.metrics),
        client_(store, runtime, ClientOptions()),
        cache_(client_, executor_, [this] { OnFetched(); }),
        queue_shards_(client_, executor_, options_.undelivered_max, [this] { Wake(); }),
        policies_(client_, executor_, PolicyCallbacks()),
        shared_{.options = options_,
                .client = client_,
                .runtime = runtime,
                .executor = executor_,
                .cache = cache_,
                .queue_shards = queue_shards_,
                .backoff = backoff_,
                .metrics = metrics_,
                .lease_valid =
                    [this](uint32_t shard) { return keeper_ != nullptr && keeper_->Valid(shard); },
                .wake = [this] { Wake(); },
                .on_row_written = [this](const std::string& key) { OnRowWritten(key); },
                .on_target_open = [this](const std::string& target) { OnTargetOpen(target); }} {}

  void Begin();
  void Drain(Closure done);
  // Called by the service's destructor, not on the executor.
  void Stop();

  void Apply(uint16_t policy_shard, std::vector<storage::v1::GrantReportRecord::Entry> entries,
             Done done) override;

  Executor& executor() { return *executor_; }
  const TokenManagerMetrics& metrics() const { return metrics_; }
  bool ready() const { return ready_.load(std::memory_order_relaxed); }

 private:
  kv::KvClient::Options ClientOptions();
  PolicyWatch::Callbacks PolicyCallbacks();
  void MakeKeeper();
  void OnAcquired(const lease::HeldLease& lease, UsedNumbers used);
  void OnReleaseWanted(uint32_t index, Closure release);
  void OnLost(uint32_t index);
  void Reload(const lease::HeldLease& lease);
  void OnSessionLost();
  void OnFetched();
  void OnRowWritten(const std::string& key);
  void OnTargetOpen(const std::string& target);
  PolicyShard* ShardOf(const Uid& policy);
  void Wake();
  void Step();
  void TakeCompletions();
  std::set<uint16_t> Committing() const;
  void PlanNextStep(absl::Time now);
  void ReleaseDrained();
  void ShowGauges();

  const TokenManagerOptions options_;
  Runtime& runtime_;
  std::shared_ptr<Executor> executor_;
  const std::unique_ptr<Metrics> own_metrics_;  // if the options name none
  TokenManagerMetrics metrics_;
  std::atomic<bool> ready_{false};
  std::atomic<size_t> completions_{0};  // brought and not answered yet
  CompletionInbox inbox_;
  kv::KvClient client_;
  RecordCache cache_;
  QueueShards queue_shards_;
  TargetBackoff backoff_;
  PolicyWatch policies_;
  TokenManagerCore shared_;
  std::unique_ptr<lease::LeaseKeeper> keeper_;
  std::map<uint32_t, std::unique_ptr<PolicyShard>> shards_;
  std::map<uint32_t, Closure> releases_;  // wanted for balance, by shards that are being drained
  bool step_posted_ = false;
  Executor::TimerId timer_ = 0;
  absl::Duration timer_at_ = absl::InfiniteDuration();  // Clock::Elapsed
  Closure drained_;                                     // set by Drain
  bool releasing_ = false;
};

kv::KvClient::Options TokenManagerService::Core::ClientOptions() {
  kv::KvClient::Options options;
  options.name = "token manager " + options_.instance;
  options.session_executor = executor_;
  options.on_session_lost = [this] { OnSessionLost(); };
  return options;
}

PolicyWatch::Callbacks TokenManagerService::Core::PolicyCallbacks() {
  return {.on_policy =
              [this](const Uid& uid, const std::optional<std::string>& record, kv::CommitSeq seq) {
                if (PolicyShard* shard = ShardOf(uid)) shard->OnPolicy(uid, record, seq);
                Wake();
              },
          .on_large =
              [this](const Uid& uid) {
                if (PolicyShard* shard = ShardOf(uid)) shard->ReadPolicyAgain(uid);
                Wake();
              },
          .on_open =
              [this] {
                for (const auto& [index, shard] : shards_) shard->ReadPoliciesAgain();
                if (keeper_ == nullptr && !drained_) MakeKeeper();
                Wake();
              }};
}

void TokenManagerService::Core::Begin() {
  client_.MultiGet({{.cf = kv::ColumnFamily::kMeta, .key = std::string(kv::kLayoutKey)}}, executor_,
                   [this](absl::StatusOr<kv::GetResult> result) {
                     if (drained_) return;
                     if (result.ok() && result->values[0].has_value()) {
                       const absl::StatusOr<kv::Layout> layout =
                           kv::DecodeLayout(*result->values[0]);
                       if (layout.ok()) {
                         shared_.layout = *layout;
                         cache_.NotifyChanges([this](const Uid& schedule) {
                           for (const auto& [index, shard] : shards_)
                             shard->OnScheduleChanged(schedule);
                           Wake();
                         });
                         cache_.Start();
                         queue_shards_.Start(layout->queue_shards);
                         policies_.Start();  // then the leases: on_open
                         return;
                       }
                     }
                     executor_->PostAfter(kAgain, [this] { Begin(); });
                   });
}

void TokenManagerService::Core::MakeKeeper() {
  lease::LeaseKeeper::Callbacks callbacks;
  callbacks.on_acquired = [this](const lease::HeldLease& lease) { OnAcquired(lease, {}); };
  callbacks.on_lost = [this](uint32_t index) { OnLost(index); };
  callbacks.on_release_wanted = [this](uint32_t index, Closure release) {
    OnReleaseWanted(index, std::move(release));
  };
  keeper_ = std::make_unique<lease::LeaseKeeper>(
      client_, runtime_, executor_,
      lease::LeaseKeeper::Options{.kind = "policy_shard",
                                  .count = shared_.layout.policy_shards,
                                  .instance = options_.instance,
                                  .ttl = options_.lease_ttl,
                                  .renew_every = options_.lease_renew_every},
      std::move(callbacks));
  keeper_->Start();
  ready_.store(true, std::memory_order_relaxed);
}

void TokenManagerService::Core::OnAcquired(const lease::HeldLease& lease, UsedNumbers used) {
  if (drained_) return;  // released with the others
  auto shard = std::make_unique<PolicyShard>(shared_, lease, keeper_->Fence(lease.index), used,
                                             [this, lease] { Reload(lease); });
  PolicyShard& started = *(shards_[lease.index] = std::move(shard));
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
  started.Start();
}

void TokenManagerService::Core::OnReleaseWanted(uint32_t index, Closure release) {
  const auto shard = shards_.find(index);
  if (shard == shards_.end()) return release();
  shard->second->Drain();
  releases_[index] = std::move(release);
  Wake();
}

void TokenManagerService::Core::OnLost(uint32_t index) {
  shards_.erase(index);
  releases_.erase(index);
  backoff_.OnShardLost(index, client_.NowLow());
  Wake();
  metrics_.shards_held.Set(static_cast<double>(shards_.size()));
}

void TokenManagerService::Core::Reload(const lease::HeldLease& lease) {
  const auto shard = shards_.find(lease.index);
  if (shard == shards_.end() || shard->second->epoch() != lease.epoch || drained_ ||
      releases_.contains(lease.index))
    return;
  const UsedNumbers used = shard->second->used();
  OnAcquired(lease, used);
  Wake();
}

void TokenManagerService::Core::OnSessionLost() {
  if (keeper_ == nullptr) return;
  cache_.Restart();
  queue_shards_.Start(shared_.layout.queue_shards);
  policies_.Start();
  keeper_->DropAll();
}

void TokenManagerService::Core::OnFetched() {
  for (const auto& [index, shard] : shards_) shard->OnFetched();
  Wake();
}

PolicyShard* TokenManagerService::Core::ShardOf(const Uid& policy) {
  const auto shard = shards_.find(PolicyShardOf(policy, shared_.layout.policy_shards));
  return shard == shards_.end() ? nullptr : shard->second.get();
}

void TokenManagerService::Core::OnRowWritten(const std::string& key) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  const auto shard = decoded.has_value() ? shards_.find(decoded->policy_shard) : shards_.end();
  if (shard == shards_.end()) return;
  shard->second->OnOwnRow(key);
  Wake();
}

void TokenManagerService::Core::OnTargetOpen(const std::string& target) {
  for (const auto& [index, shard] : shards_) shard->OnTargetOpen(target);
  Wake();
}

void TokenManagerService::Core::Apply(uint16_t policy_shard,
                                      std::vector<storage::v1::GrantReportRecord::Entry> entries,
                                      Done done) {
  const size_t n = entries.size();
  const bool room =
      completions_.fetch_add(n, std::memory_order_relaxed) < options_.completions_max &&
      !Perturb(runtime_, Site::kTokensCompletionRefused);
  auto answer = [this, n,
                 done = std::move(done)](absl::StatusOr<std::vector<bool>> result) mutable {
    completions_.fetch_sub(n, std::memory_order_relaxed);
    done(std::move(result));
  };
  if (!room) {
    return executor_->Post([answer = std::move(answer)]() mutable {
      answer(absl::UnavailableError("the token manager has no room"));
    });
  }
  if (inbox_.Add({policy_shard, std::move(entries), std::move(answer)})) {
    executor_->Post([this] {
      if (!step_posted_) Step();
    });
  }
}

// Of the shards that can do something with them.
void TokenManagerService::Core::TakeCompletions() {
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

std::set<uint16_t> TokenManagerService::Core::Committing() const {
  std::set<uint16_t> committing;
  for (const auto& [index, shard] : shards_) {
    if (shard->committing()) committing.insert(static_cast<uint16_t>(index));
  }
  return committing;
}

void TokenManagerService::Core::Wake() {
  if (step_posted_) return;
  step_posted_ = true;
  executor_->Post([this] {
    step_posted_ = false;
    Step();
  });
}

void TokenManagerService::Core::Step() {
  const absl::Time now = client_.NowLow();
  if (now != absl::InfinitePast()) {
    for (const std::string& target : backoff_.TakeOpened(now, kTargetsOpenedMax))
      OnTargetOpen(target);
  }
  TakeCompletions();
  for (const auto& [index, shard] : shards_) shard->Step(now);
  inbox_.SetBusy(Committing());
  ShowGauges();
  PlanNextStep(now);
  ReleaseDrained();
}

void TokenManagerService::Core::ShowGauges() {
  size_t policies = 0;
  for (const auto& [index, shard] : shards_) policies += shard->policies();
  const Totals& totals = queue_shards_.totals();
  metrics_.policies_active.Set(static_cast<double>(policies));
  metrics_.rows_in_memory.Set(static_cast<double>(totals.rows));
  metrics_.held.Set(static_cast<double>(totals.held));
  metrics_.undelivered_now.Set(static_cast<double>(totals.undelivered));
  metrics_.completions_waiting.Set(
      static_cast<double>(completions_.load(std::memory_order_relaxed)));
}

void TokenManagerService::Core::PlanNextStep(absl::Time now) {
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  absl::Duration at = absl::InfiniteDuration();
  // The store's time runs at most 500 ppm slower than ours; what is left of the difference costs
  // one more short wait.
  const auto at_store_time = [&](absl::Time time) {
    at = std::min(at, elapsed + std::max(time - now, absl::ZeroDuration()));
  };
  bool blocked = false;
  for (const auto& [index, shard] : shards_) {
    if (shard->blocked()) {
      blocked = true;
    } else if (const std::optional<absl::Time> next = shard->NextTime()) {
      at_store_time(*next);
    }
  }
  if (now != absl::InfinitePast() && !shards_.empty()) {
    if (const std::optional<absl::Time> next = backoff_.NextAt(now)) at_store_time(*next);
  }
  if (blocked) at = std::min(at, elapsed + kBlockedStep);
  if (timer_ != 0 && timer_at_ == at) return;
  if (timer_ != 0) executor_->Cancel(timer_);
  timer_ = 0;
  timer_at_ = at;
  if (at == absl::InfiniteDuration()) return;
  // Never at once: what is due now and could not be done waits for something else.
  timer_ = executor_->PostAfter(std::max(at - elapsed, absl::Microseconds(100)), [this] {
    timer_ = 0;
    Step();
  });
}

void TokenManagerService::Core::Drain(Closure done) {
  drained_ = std::move(done);
  for (const auto& [index, shard] : shards_) shard->Drain();
  Wake();
}

void TokenManagerService::Core::ReleaseDrained() {
  if (!drained_) {
    for (auto release = releases_.begin(); release != releases_.end();) {
      const auto shard = shards_.find(release->first);
      if (shard != shards_.end() && !shard->second->drained()) {
        ++release;
        continue;
      }
      // Not from within a step: the release drops the shard.
      executor_->Post(
          [closure = std::make_shared<Closure>(std::move(release->second))] { (*closure)(); });
      release = releases_.erase(release);
    }
    return;
  }
  if (releasing_) return;
  for (const auto& [index, shard] : shards_) {
    if (!shard->drained()) return;
  }
  releasing_ = true;
  if (keeper_ == nullptr) return drained_();
  keeper_->Release([this] { drained_(); });
}

void TokenManagerService::Core::Stop() {
  executor_->Stop();
  inbox_.Close();
  for (const auto& [index, shard] : shards_) shard->Abandon();
}

TokenManagerService::TokenManagerService(TokenManagerOptions options, kv::KvStore& store,
                                         Runtime& runtime)
    : core_(std::make_shared<Core>(std::move(options), store, runtime)) {}

TokenManagerService::~TokenManagerService() { core_->Stop(); }

void TokenManagerService::Start() {
  core_->executor().Post([core = core_.get()] { core->Begin(); });
}

void TokenManagerService::Drain(Closure done) {
  core_->executor().Post(
      [core = core_.get(), done = std::move(done)]() mutable { core->Drain(std::move(done)); });
}

bool TokenManagerService::Ready() const { return core_->ready(); }

const TokenManagerMetrics& TokenManagerService::metrics() const { return core_->metrics(); }

LocalGrants& TokenManagerService::grants() { return *core_; }

}  // namespace escapement::token_manager
