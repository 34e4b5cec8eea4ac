#include "services/handler/delivery/sqs/timer_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace escapement::handler {

TimerThread::TimerThread(std::string name, std::function<MonotonicMicros()> step)
    : name_(std::move(name)), step_(std::move(step)), thread_([this] { Run(); }) {}

TimerThread::~TimerThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void TimerThread::WakeBy(MonotonicMicros at) {
  absl::MutexLock lock(&mutex_);
  if (at >= next_) return;
  next_ = at;
  changed_.Signal();
}

void TimerThread::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    const MonotonicMicros now = MonotonicNow();
    if (next_ > now) {
      if (next_ == kNeverMicros) {
        changed_.Wait(&mutex_);
      } else {
        changed_.WaitWithTimeout(&mutex_, absl::Microseconds(next_ - now));
      }
      continue;
    }
    next_ = kNeverMicros;
    mutex_.Unlock();
    const MonotonicMicros next = step_();
    mutex_.Lock();
    next_ = std::min(next_, next);
  }
}

}  // namespace escapement::handler
