// Keeps gRPC's callback API awake, and from waking itself.
//
// Threads of gRPC's own poll for it ("nexting_thread", src/cpp/common/completion_queue_cc.cc of
// gRPC 1.51; pull request 25169 of grpc/grpc): half as many as there are cores, at least two.
//
// They sleep for 100 ms whenever nothing has happened for a second, on a small machine often both
// at the same time: what comes then, after a quiet second, waits for up to 100 ms, be it a call to
// a server, an answer or a delivery. That is far more than events may be late, so they do not
// sleep: they go back to waiting for what happens.
//
// Of two, the one that finds something wakes the other to poll on before it looks at what it has
// found (end_worker in src/core/lib/iomgr/ev_epoll1_linux.cc): a wake and a switch of threads for
// each poll, on a machine where nobody is there to run it. So where half of the cores are one, one
// thread polls; the others wait until the queue is shut down.
//
// Nothing offers this as an option; but gpr_sleep_until and grpc_completion_queue_next are found in
// the program before gRPC's library.

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/real_function.h"

namespace {

constexpr char kPollingThread[] = "nexting_thread";

bool OfPollingThread() {
  static thread_local const bool of_polling_thread = [] {
    char name[16];  // the longest that Linux has
    return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
           std::strcmp(name, kPollingThread) == 0;
  }();
  return of_polling_thread;
}

// How many of a queue's threads poll.
unsigned PollersMax() { return std::max(1u, std::thread::hardware_concurrency() / 2); }

// The threads of one completion queue.
class Pollers {
 public:
  // Those of `queue`, for a thread that will ask for its events until it is shut down.
  static std::shared_ptr<Pollers> Of(grpc_completion_queue* queue) {
    absl::MutexLock lock(&all_mutex_);
    std::shared_ptr<Pollers>& pollers = (*all_)[queue];
    if (pollers == nullptr) pollers = std::make_shared<Pollers>();
    return pollers;
  }
  // Returns when the thread may poll: at once for the first, for the others when nothing is left.
  void Enter() {
    absl::MutexLock lock(&mutex_);
    if (polling_ == PollersMax()) return mutex_.Await(absl::Condition(&shut_down_));
    ++polling_;
  }
  // A queue at the same place is another one from now on.
  void ShutDown(grpc_completion_queue* queue) {
    {
      absl::MutexLock lock(&all_mutex_);
      const auto found = all_->find(queue);
      if (found != all_->end() && found->second.get() == this) all_->erase(found);
    }
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
  }

 private:
  using All = std::map<grpc_completion_queue*, std::shared_ptr<Pollers>>;
  static inline absl::Mutex all_mutex_{absl::kConstInit};
  static inline All* const all_ ABSL_PT_GUARDED_BY(all_mutex_) = new All;  // outlives all threads

  absl::Mutex mutex_;
  unsigned polling_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

extern "C" void gpr_sleep_until(gpr_timespec until) {
  static auto* const real = escapement::RealFunction<decltype(gpr_sleep_until)>("gpr_sleep_until");
  if (!OfPollingThread()) real(until);
}

extern "C" grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                                 gpr_timespec deadline, void* reserved) {
  static auto* const real =
      escapement::RealFunction<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  if (!OfPollingThread()) return real(queue, deadline, reserved);
  // Each of these threads asks one queue, until it is shut down.
  static thread_local const std::shared_ptr<Pollers> pollers = [queue] {
    std::shared_ptr<Pollers> pollers = Pollers::Of(queue);
    pollers->Enter();
    return pollers;
  }();
  const grpc_event event = real(queue, deadline, reserved);
  if (event.type == GRPC_QUEUE_SHUTDOWN) pollers->ShutDown(queue);
  return event;
}
