// The seams through which time, chance and concurrency reach a service.
//
// A service takes a Runtime by its constructor and asks nothing else for the time, a random number
// or a thread. SystemRuntime (system_runtime.h) is the machine's; sim::SimRuntime (common/sim) is
// one thread on virtual time.
//
// Threads: Clock, Random and Executor may be called from any thread.

#ifndef COMMON_RUNTIME_RUNTIME_H_
#define COMMON_RUNTIME_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace escapement {

using Closure = absl::AnyInvocable<void()>;

class Perturbations;  // perturb.h

class Clock {
 public:
  virtual ~Clock() = default;

  // Time since an arbitrary instant; never goes back; advances while the machine is suspended
  // (CLOCK_BOOTTIME). The only clock by which a service waits, measures or counts a lease.
  virtual absl::Duration Elapsed() const = 0;

  // The machine's wall clock. Only the store's clock, what a client tells it, and log lines may ask
  // for it.
  virtual absl::Time WallNow() const = 0;

  // True if the kernel says that its wall clock is synchronised with a source of time (adjtimex).
  virtual bool WallIsSynchronised() const { return false; }

  // Names this boot of the machine: processes with equal ids have the same wall clock. Empty: it is
  // not known.
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

// Runs closures one after the other, in the order of Post; state touched only on one executor needs
// no lock.
class Executor {
 public:
  using TimerId = uint64_t;  // 0 is never a timer's id.

  virtual ~Executor() = default;

  // Queues `closure`. After Stop() it is destroyed without being run.
  virtual void Post(Closure closure) = 0;

  // Queues `closure` once clock().Elapsed() has advanced by at least `delay`. Equal instants keep
  // the order of the calls.
  virtual TimerId PostAfter(absl::Duration delay, Closure closure) = 0;

  // Forgets a timer whose closure has not been started; called on this executor it is exact: after
  // `true` the closure will not run.
  virtual bool Cancel(TimerId timer) = 0;

  // Drops all that has not started and waits for the running closure, unless called from it.
  // Idempotent.
  virtual void Stop() = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Clock& clock() = 0;
  virtual Random& random() = 0;
  // `name` shows in thread names and traces. The caller stops it; holders of the pointer may
  // outlive that.
  virtual std::shared_ptr<Executor> NewExecutor(std::string name) = 0;
  // Null but in the simulation.
  virtual Perturbations* perturbations() { return nullptr; }
};

}  // namespace escapement

#endif  // COMMON_RUNTIME_RUNTIME_H_
