// BatchTurns: when the batches of a stream begin. A batch that goes alone begins once all before it
// have ended, and those behind it once it has ended; others go together.
//
// Threads: any.

#ifndef SERVICES_MASTER_EVENTS_BATCH_TURNS_H_
#define SERVICES_MASTER_EVENTS_BATCH_TURNS_H_

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/runtime/runtime.h"

namespace escapement::master {

class BatchTurns {
 public:
  // Calls `begin` when it is its turn, at once or within End. End must follow.
  void Add(bool alone, Closure begin) {
    {
      absl::MutexLock lock(&mutex_);
      waiting_.push_back({alone, std::move(begin)});
    }
    BeginSome();
  }
  void End() {
    {
      absl::MutexLock lock(&mutex_);
      --under_way_;
      alone_ = false;
    }
    BeginSome();
  }

 private:
  struct Waiting {
    bool alone = false;
    Closure begin;
  };

  // One after the other, without the lock: a batch may end at once.
  void BeginSome() {
    while (true) {
      Closure begin;
      {
        absl::MutexLock lock(&mutex_);
        if (beginning_ || waiting_.empty() || alone_ || (waiting_.front().alone && under_way_ > 0))
          return;
        begin = std::move(waiting_.front().begin);
        alone_ = waiting_.front().alone;
        waiting_.pop_front();
        ++under_way_;
        beginning_ = true;
      }
      begin();
      absl::MutexLock lock(&mutex_);
      beginning_ = false;
    }
  }

  absl::Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool alone_ ABSL_GUARDED_BY(mutex_) = false;      // the one that is under way
  bool beginning_ ABSL_GUARDED_BY(mutex_) = false;  // some thread is in BeginSome
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_BATCH_TURNS_H_
