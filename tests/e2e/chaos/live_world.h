// LiveWorld: a SimWorld that keeps step with the machine's wall clock on a thread of its own, so
// that users, consumers and workers of the simulation meet real processes.
//
// What other threads saw is posted; it runs after the world's time has reached the moment of its
// posting. So the world is never ahead of true time: what an actor writes down as called was not
// called earlier, what it writes down as answered was not answered later.
//
// Threads: world() and everything made from it belong to the world's thread, between Start and
// Stop; Post and Call may be used by any other one.

#ifndef TESTS_E2E_CHAOS_LIVE_WORLD_H_
#define TESTS_E2E_CHAOS_LIVE_WORLD_H_

#include <cstdint>
#include <deque>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "common/sim/sim_world.h"

namespace escapement::chaos {

// The machine's wall clock, in whole microseconds as all records are.
absl::Time TrueTime();

class LiveWorld {
 public:
  explicit LiveWorld(uint64_t seed);
  ~LiveWorld();  // stops
  LiveWorld(const LiveWorld&) = delete;
  LiveWorld& operator=(const LiveWorld&) = delete;

  sim::SimWorld& world() { return world_; }

  void Start();
  // What is posted later is dropped. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs on the world's thread; closures of one thread keep their order.
  void Post(Closure closure) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs it there and returns when it has run. The world must run.
  void Call(absl::FunctionRef<void()> what) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  sim::SimWorld world_;
  std::thread thread_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Closure> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_LIVE_WORLD_H_
