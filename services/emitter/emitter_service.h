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

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "services/emitter/limits.h"

namespace escapement::emitter {

class EmitterService {
 public:
  struct Options {
    std::string instance = "emitter";  // unique for each start of a process
    absl::Duration lease_ttl = absl::Seconds(5);
    absl::Duration lease_renew_every = absl::Seconds(1);
    // Rows are written this long before they are due: the time for which emitters may be away
    // without lateness. A change of a schedule emits what falls into it.
    absl::Duration ahead = absl::Seconds(5);
    absl::Duration step_every = absl::Seconds(1);  // in store time; less than `ahead`
    // The revision of this process's time zone database, which must be in force for its commits to
    // apply (common/tzdata). Empty: no revision is required.
    std::string tz_rev = {};
    size_t launches_max = kLaunchesMax;  // launch records in memory
    Metrics* metrics = nullptr;          // null: not shown. Outlives the service
  };

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
