// TokenManagerService: grants tokens to waiting events, of the policy shards that it owns by lease
// (PolicyShard; docs/design/throttling.md).
//
// The same class runs in the token manager's process, in standalone and in the simulation.
//
// Threads: all public methods may be called from any thread. The work happens on the service's own
// executor, which the destructor stops.

#ifndef SERVICES_TOKEN_MANAGER_SERVICE_TOKEN_MANAGER_SERVICE_H_
#define SERVICES_TOKEN_MANAGER_SERVICE_TOKEN_MANAGER_SERVICE_H_

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/auth/platform_gate.h"
#include "common/kv/client/watched_range.h"
#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "common/process/sharded_service.h"
#include "common/runtime/runtime.h"
#include "common/statistics/minute_sums.h"
#include "common/tokens/token_door.h"
#include "common/tokens/token_grpc.h"
#include "services/token_manager/base/metrics.h"
#include "services/token_manager/base/options.h"
#include "services/token_manager/holding/report_queue.h"
#include "services/token_manager/service/policy_shard.h"

namespace escapement::token_manager {

class TokenManagerService final : public ShardedService, public LocalGrants {
 public:
  // `store` and `runtime` must outlive it.
  TokenManagerService(TokenManagerOptions options, kv::KvStore& store, Runtime& runtime);
  // Not on the executor. Completions that are not answered are dropped: their `done` does not run.
  ~TokenManagerService() override;

  // LocalGrants: takes completions for the shards owned here. Not once the destructor has begun.
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
  void OnDrain() override {
    ForEachShard([](PolicyShard& shard) { shard.Drain(nullptr); });
  }

  // Calls visit(shard), and wakes.
  template <typename Visit>
  void ForEachShard(Visit visit) {
    for (const auto& [index, shard] : shards_) visit(*shard);
    Wake();
  }
  void StartWatches();
  void OnPoliciesOpen();
  void OnPolicies(const kv::WatchBatch& batch);
  // Handlers and masters tell that a target is well again, or was reset.
  void OnTargetStates(const kv::WatchBatch& batch);
  void AddShard(const lease::HeldLease& lease, UsedNumbers used);
  void OnRowWritten(const std::string& key);
  void OnTargetOpen(const std::string& target) {
    ForEachShard([&](PolicyShard& shard) { shard.state().OnTargetOpen(target); });
  }
  std::set<uint16_t> Committing() const;
  void PlanNextStep(absl::Time now);
  void ShowGauges();
  // Takes a sample of each policy for the statistics, and writes them, now and every
  // kStatisticsEvery.
  void TakeStatistics();
  void SamplePolicies(absl::Time now);
  // Sets the gauges of policies, now and every kPolicyGaugesEvery: their ages grow without a step.
  void ShowPolicies();

  const TokenManagerOptions options_;
  TokenManagerMetrics metrics_;
  std::atomic<size_t> completions_{0};  // entries of Apply without an answer
  bool wrote_last_ = false;             // the drain is writing the last statistics
  bool stopped_ = false;                // the executor; from then on nothing is answered
  CompletionInbox inbox_;
  RecordCache cache_;
  MinuteSums statistics_;
  QueueShards queue_shards_;
  TargetBackoff backoff_;
  kv::WatchedRange policies_;  // their records
  kv::WatchedRange target_states_;
  TokenManagerCore shared_;
  std::map<uint32_t, std::unique_ptr<PolicyShard>> shards_;
  std::set<std::string> policies_shown_;  // by ShowPolicyGauges
};

// HostedTokenManager: a TokenManagerService with its flags and the door at which consumers give
// tokens back. The token manager process and standalone host it.
class HostedTokenManager final : public HostedService {
 public:
  // `context` and `store` must outlive it.
  HostedTokenManager(const ServiceContext& context, kv::KvStore& store);

  // TokenService. In standalone the master serves it, over this door.
  void AddRpcs(RpcTable& table) override { AddTokenRpcs(door_, table); }
  TokenApi& door() { return door_; }
  CallGate& gate() override { return gate_.gate(); }
  absl::Status Start() override;
  bool Ready() override { return service_.Ready() && door_.Ready() && gate_.Ready(); }
  ShardedService* sharded() override { return &service_; }
  // Drains the door while the service still handles its calls, then the service.
  void Drain(Closure done) override;

 private:
  // The order matters: the door uses the service, and is destroyed first.
  TokenManagerService service_;
  TokenDoor door_;
  auth::HostedGate gate_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_SERVICE_TOKEN_MANAGER_SERVICE_H_
