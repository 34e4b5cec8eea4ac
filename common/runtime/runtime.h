// The interfaces through which a service gets time, random numbers and threads.
//
// A service takes a Runtime in its constructor and has no other source of them. SystemRuntime
// (system_runtime.h) is the machine's. sim::SimRuntime (common/sim) is one thread on virtual time.
//
// Threads: any thread may call Clock, Random and Executor.

#ifndef COMMON_RUNTIME_RUNTIME_H_
#define COMMON_RUNTIME_RUNTIME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace escapement {

using Closure = absl::AnyInvocable<void()>;

// A function that runs `done` when it is called for the n-th time, on the thread of that call.
inline std::function<void()> AtCall(size_t n, Closure done) {
  return [left = std::make_shared<std::atomic<size_t>>(n),
          done = std::make_shared<Closure>(std::move(done))] {
    if (left->fetch_sub(1) == 1) (*done)();
  };
}

class Perturbations;  // perturb.h

class Clock {
 public:
  virtual ~Clock() = default;

  // Time since an arbitrary instant. It never goes back, and advances while the machine is
  // suspended (CLOCK_BOOTTIME). Services use only this clock to wait, to measure and to count a
  // lease.
  virtual absl::Duration Elapsed() const = 0;

  // The machine's wall clock. Only three things may use it: the store's clock, a client's report to
  // it, and log lines.
  virtual absl::Time WallNow() const = 0;

  // True if the kernel says that its wall clock is synchronised with a time source (adjtimex).
  virtual bool WallIsSynchronised() const { return false; }

  // The id of this boot of the machine: processes with equal ids have the same wall clock. Empty:
  // unknown.
  virtual std::string BootId() const { return {}; }
};

class Random {
 public:
  virtual ~Random() = default;
  // Uniform over all 2^64 values.
  virtual uint64_t Next() = 0;
  // Uniform in [0, bound); 0 if bound is 0. (Bias below 2^-32 for bounds below 2^32.)
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
};

// Runs closures one after the other, in the order of Post. State that is touched only on one
// executor needs no lock.
class Executor {
 public:
  using TimerId = uint64_t;  // 0 is never the id of a timer

  virtual ~Executor() = default;

  // Queues `closure`. After Stop() the closure is destroyed without running.
  virtual void Post(Closure closure) = 0;

  // Queues `closure` once clock().Elapsed() has advanced by at least `delay`. Timers of equal
  // instants run in the order of the calls.
  virtual TimerId PostAfter(absl::Duration delay, Closure closure) = 0;

  // Cancels a timer whose closure has not started. If called on this executor the result is exact:
  // after `true` the closure will not run.
  virtual bool Cancel(TimerId timer) = 0;

  // Drops all closures that have not started, and waits for the running one, unless called from it.
  // Idempotent.
  virtual void Stop() = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Clock& clock() = 0;
  virtual Random& random() = 0;
  // `name` appears in thread names and traces. The caller stops the executor; others may hold the
  // pointer longer.
  virtual std::shared_ptr<Executor> NewExecutor(std::string name) = 0;
  // Null outside the simulation.
  virtual Perturbations* perturbations() { return nullptr; }
};

}  // namespace escapement

#endif  // COMMON_RUNTIME_RUNTIME_H_
