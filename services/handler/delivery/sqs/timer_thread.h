// TimerThread: a thread that calls one function when it is time.
//
// The function returns when it wants to be called next. WakeBy makes that earlier.
//
// Threads: WakeBy may be called from any thread, also from within the function.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_TIMER_THREAD_H_
#define SERVICES_HANDLER_DELIVERY_SQS_TIMER_THREAD_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class TimerThread {
 public:
  // Calls `step` at once. `name`: at most 15 characters.
  TimerThread(std::string name, std::function<MonotonicMicros()> step);
  // Waits for a running step.
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  // Calls the function at this time at the latest (plus scheduling).
  void WakeBy(MonotonicMicros at);

 private:
  void Run();

  const std::string name_;
  const std::function<MonotonicMicros()> step_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  MonotonicMicros next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_TIMER_THREAD_H_
