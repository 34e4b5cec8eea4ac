// LiveWorld: a SimWorld that keeps pace with the machine's wall clock on a thread of its own. So
// users, consumers and workers of the simulation can meet real processes.
//
// Other threads post their observations. A posted closure runs once the world's time has reached
// the moment of the post, so the world is never ahead of true time. An actor's note of a call is
// never later than the call, and its note of an answer never earlier than the answer.
//
// Threads: between Start and Stop, world() and everything made from it belong to the world's
// thread. Post and Call may be used by any other thread.

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
  ~LiveWorld();  // stops the world
  LiveWorld(const LiveWorld&) = delete;
  LiveWorld& operator=(const LiveWorld&) = delete;

  sim::SimWorld& world() { return world_; }

  void Start();
  // Closures that are posted later are dropped. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs the closure on the world's thread. Closures of one thread keep their order.
  void Post(Closure closure) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs it on the world's thread and returns when it is done. The world must run.
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
