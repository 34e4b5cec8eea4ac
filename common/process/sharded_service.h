// ShardedService: the skeleton of a service that owns shards by lease. Emitter, handler and token
// manager derive one class each from it.
//
//   Start → read the layout (again every second until it is there) → OnLayout → StartLeases
//     → OnAcquired, OnLost, OnReleaseWanted, as the leases come and go
//   Wake, PlanStep → Step
//   store session lost → OnSessionLost, then OnLost for each lease
//   PauseLeases → OnReleaseWanted for each lease → done; ResumeLeases
//   Drain → OnDrain → ReleaseLeases → done
//
// The derived class keeps the shards. It decides when it wakes and what a step does.
//
// Threads: Start, PauseLeases, ResumeLeases, Drain, Ready and Stop from any; everything else, all
// hooks included, on the service's executor. Call Stop before the members of the derived class are
// destroyed; after it no hook is called. Leases that were not released expire.

#ifndef COMMON_PROCESS_SHARDED_SERVICE_H_
#define COMMON_PROCESS_SHARDED_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/lease/lease_keeper.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"

namespace escapement {

struct ShardedServiceOptions {
  std::string executor;      // its name, also in metrics: "token_manager"
  std::string session_name;  // name of the store session: "token manager", then the instance
  std::string instance;      // unique for each start of a process
  // See LeaseKeeper::Options.
  std::vector<std::string> dead_instances = {};
  std::string lease_kind;  // "partition", "queue_shard", "policy_shard"
  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);
  Metrics* metrics = nullptr;               // outlives the service; null: the service keeps its own
  std::vector<std::string> meta_keys = {};  // read together with the layout
};

class ShardedService {
 public:
  // `store` and `runtime` must outlive it.
  ShardedService(ShardedServiceOptions options, kv::KvStore& store, Runtime& runtime);
  virtual ~ShardedService();
  ShardedService(const ShardedService&) = delete;
  ShardedService& operator=(const ShardedService&) = delete;

  void Start();

  // Gives the leases back as balance does, and takes none until ResumeLeases. Calls `done` on the
  // executor once none is held. While the store cannot be reached, or once ResumeLeases or Drain
  // was called, `done` is not called; the caller bounds that.
  void PauseLeases(Closure done);
  void ResumeLeases();

  // Calls `done` on the executor once the leases are released. While the store cannot be reached,
  // `done` is not called; the caller bounds that.
  void Drain(Closure done);

  // True once the leases are being balanced, until SetReady(false).
  bool Ready() const { return ready_.load(std::memory_order_relaxed); }

  // Stops the executor. Not on the executor.
  void Stop();

 protected:
  // `values` are those of ShardedServiceOptions::meta_keys. Calls StartLeases, at once or later.
  virtual void OnLayout(const kv::Layout& layout,
                        std::vector<std::optional<std::string>> values) = 0;
  virtual void OnAcquired(const lease::HeldLease& lease) = 0;
  virtual void OnLost(uint32_t index) = 0;
  // See LeaseKeeper::Callbacks::on_release_wanted.
  virtual void OnReleaseWanted(uint32_t index, Closure release) { release(); }
  // Only after StartLeases. The leases are dropped when it returns.
  virtual void OnSessionLost() {}
  virtual void Step() = 0;
  // Takes no further work, and calls ReleaseLeases when the work under way has ended.
  virtual void OnDrain() = 0;

  // Begins to acquire leases 0 … count-1. Once.
  void StartLeases(uint32_t count);
  bool leases_started() const { return keeper_ != nullptr; }
  // False before StartLeases.
  bool LeaseValid(uint32_t index) const { return keeper_ != nullptr && keeper_->Valid(index); }
  // The lease must be held.
  kv::Condition Fence(uint32_t index) const;

  // Gives up all leases without a release (OnLost), and acquires them again: memory may differ from
  // the store.
  void DropLeases() { keeper_->DropAll(); }

  // Ends a drain. Further calls do nothing.
  void ReleaseLeases();

  // Steps soon. All calls before the step lead to one step.
  void Wake();
  bool step_posted() const { return step_posted_; }

  // Plans a step after `delay` instead of the step that was planned. `at` is only for planned_step.
  // InfiniteDuration: no step is planned.
  void PlanStep(absl::Duration at, absl::Duration delay);
  // `at` of the planned step; nullopt: no step is planned.
  std::optional<absl::Duration> planned_step() const {
    if (timer_ == 0) return std::nullopt;
    return timer_at_;
  }

  // True as soon as Drain was asked for.
  bool draining() const { return drained_ != nullptr; }
  void SetReady(bool ready) { ready_.store(ready, std::memory_order_relaxed); }

  Runtime& runtime() const { return runtime_; }
  const std::shared_ptr<Executor>& executor() const { return executor_; }
  kv::KvClient& client() { return client_; }
  Metrics& registry() { return options_.metrics == nullptr ? *own_metrics_ : *options_.metrics; }

 private:
  kv::KvClient::Options ClientOptions();
  void ReadLayout();
  // The counter of this service with the label `program`.
  Counter& CounterOf(const char* name, const char* help);
  Gauge& GaugeOf(const char* name, const char* help);
  lease::LeaseKeeper::Callbacks LeaseCallbacks();

  const ShardedServiceOptions options_;
  Runtime& runtime_;
  const std::shared_ptr<Executor> executor_;
  const std::unique_ptr<Metrics> own_metrics_;  // if the options name none
  std::atomic<bool> ready_{false};
  kv::KvClient client_;
  uint32_t cell_ = 0;  // the layout's cell
  std::unique_ptr<lease::LeaseKeeper> keeper_;
  bool step_posted_ = false;
  Executor::TimerId timer_ = 0;
  absl::Duration timer_at_ = absl::InfiniteDuration();
  Closure drained_;  // set by Drain
  bool releasing_ = false;
  std::set<uint32_t> given_back_;  // leases that balance took, until they are acquired again
  Counter& leases_acquired_;
  Counter& leases_lost_;
  Counter& sessions_lost_;
  // A shard that nobody holds shows as the difference: nobody can say how late its rows are.
  Gauge& leases_held_;
  Gauge& leases_owned_;
  Gauge& leases_wanted_;
};

// --lease_ttl and --lease_renew_every, for every service that owns leases.

// Appends a sentence for each impossible value.
void ValidateLeaseFlags(std::vector<std::string>& errors);

absl::Duration LeaseTtl();         // a dead owner keeps its leases this long
absl::Duration LeaseRenewEvery();  // at most a third of LeaseTtl()

}  // namespace escapement

#endif  // COMMON_PROCESS_SHARDED_SERVICE_H_
