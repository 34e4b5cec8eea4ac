// EmitterService: turns schedules into event rows, ahead of time. It owns partitions of the
// children index by lease. For each partition it emits every occurrence once (emission_loop.h),
// launches occurrences that depend on former runs when they are due (launch_loop.h), and closes
// runs that have ended (run_closer.h).
//
// The same class runs in the emitter process, in standalone and in the simulation.
//
// Threads: all methods may be called from any thread. The work happens on the service's own
// executor, which the destructor stops. Without a Drain before it, the leases expire.

#ifndef SERVICES_EMITTER_SERVICE_EMITTER_SERVICE_H_
#define SERVICES_EMITTER_SERVICE_EMITTER_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "common/runtime/runtime.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {

class EmitterService {
 public:
  // `store` and `runtime` must outlive it.
  EmitterService(EmitterOptions options, kv::KvStore& store, Runtime& runtime);
  ~EmitterService();
  EmitterService(const EmitterService&) = delete;
  EmitterService& operator=(const EmitterService&) = delete;

  // Begins to acquire partitions as soon as the store answers.
  void Start();

  // Begins no further work, releases the leases, then calls `done` on the service's executor. While
  // the store cannot be reached, `done` is not called; the caller bounds that.
  void Drain(Closure done);

  // True from the start of the leases to Drain, except while the store's clock has held emission
  // for long.
  bool Ready() const;
  // The reason if the store's clock is why it is not ready (common/kv/engine/store_clock.h), or "".
  std::string NotReadyReason() const;

  // Lives as long as this.
  ShardedService& sharded();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// HostedEmitter: an EmitterService with its flags. The emitter process and standalone host it.

// Appends one sentence for each flag of the emitter with an invalid value.
void ValidateEmitterFlags(std::vector<std::string>& errors);

class HostedEmitter final : public HostedService {
 public:
  // `context` and `store` must outlive it.
  HostedEmitter(const ServiceContext& context, kv::KvStore& store);

  absl::Status Start() override;
  bool Ready() override { return service_.Ready(); }
  ShardedService* sharded() override { return &service_.sharded(); }
  std::string NotReadyReason() override { return service_.NotReadyReason(); }
  void Drain(Closure done) override { service_.Drain(std::move(done)); }

 private:
  EmitterService service_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_SERVICE_EMITTER_SERVICE_H_
