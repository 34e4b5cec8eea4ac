// EmitterService: turns schedules into event rows, ahead of time. It owns partitions of the
// children index by lease; of each it emits every occurrence once (emission_loop.h), launches those
// that depend on former runs when they are due (launch_loop.h), and closes the runs that have ended
// (run_closer.h).
//
// The same class runs in the emitter process, in standalone and in the simulation.
//
// Threads: Start, Drain and Ready from any; everything else happens on an executor of its own. The
// destructor stops the executor; without a Drain before it, the leases run out by themselves.

#ifndef SERVICES_EMITTER_EMITTER_SERVICE_H_
#define SERVICES_EMITTER_EMITTER_SERVICE_H_

#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"
#include "services/emitter/options.h"

namespace escapement::emitter {

class EmitterService {
 public:
  using Options = EmitterOptions;

  // `store` and `runtime` outlive it.
  EmitterService(Options options, kv::KvStore& store, Runtime& runtime);
  ~EmitterService();
  EmitterService(const EmitterService&) = delete;
  EmitterService& operator=(const EmitterService&) = delete;

  // Begins to acquire partitions as soon as the store answers.
  void Start();

  // Begins nothing more, releases the leases, then calls `done` on the service's executor. If the
  // store cannot be reached it does not return: the caller bounds it.
  void Drain(Closure done);

  // True while it takes part and the store's clock has not held emission for long. Any thread.
  bool Ready() const;
  // Why it is not ready, if that is the store's clock (common/kv/engine/clock_hold.h). Any thread.
  std::string NotReadyReason() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMITTER_SERVICE_H_
