// BatchTurns: when the batches of a stream begin. Records of one id take effect in their order, so
// from the first batch on that replaces or cancels events, a batch waits for those before it that
// have an id of it, and those behind it wait, too. Before that, batches begin at once: which of two
// events with one id is created first makes no difference.
//
// Threads: any.

#ifndef SERVICES_MASTER_EVENTS_BATCH_TURNS_H_
#define SERVICES_MASTER_EVENTS_BATCH_TURNS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/runtime/runtime.h"
#include "services/master/api/master_apis.h"

namespace escapement::master {

class BatchTurns {
 public:
  using Batch = std::shared_ptr<const v1::IngestRequest>;

  // Calls `begin` when it is the batch's turn, at once or within End. End must follow.
  void Add(Batch batch, Closure begin) {
    {
      absl::MutexLock lock(&mutex_);
      waiting_.push_back({std::move(batch), std::move(begin)});
    }
    BeginSome();
  }
  void End(const Batch& batch) {
    {
      absl::MutexLock lock(&mutex_);
      --under_way_;
      if (known_.erase(batch) > 0) {
        for (const v1::IngestEvent& event : batch->events()) ids_.erase(event.event_id());
      }
    }
    BeginSome();
  }

 private:
  struct Waiting {
    Batch batch;
    Closure begin;
  };

  // One after the other, without the lock: a batch may end at once.
  void BeginSome() {
    while (true) {
      Closure begin;
      {
        absl::MutexLock lock(&mutex_);
        if (beginning_ || waiting_.empty() || !MayBegin(waiting_.front().batch)) return;
        begin = std::move(waiting_.front().begin);
        waiting_.pop_front();
        ++under_way_;
        beginning_ = true;
      }
      begin();
      absl::MutexLock lock(&mutex_);
      beginning_ = false;
    }
  }

  // Notes the ids of a batch that may.
  bool MayBegin(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!ordered_) {
      if (absl::c_none_of(batch->events(), TakesBack)) return true;
      if (under_way_ > 0) return false;  // their ids are not known
      ordered_ = true;
    }
    for (const v1::IngestEvent& event : batch->events()) {
      if (ids_.contains(event.event_id())) return false;
    }
    known_.insert(batch);
    for (const v1::IngestEvent& event : batch->events()) {
      if (!event.event_id().empty()) ids_.insert(event.event_id());
    }
    return true;
  }

  absl::Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ordered_ ABSL_GUARDED_BY(mutex_) = false;
  // Batches under way, and their ids, since the stream is ordered. The ids are those of the
  // batches.
  absl::flat_hash_set<Batch> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<absl::string_view> ids_ ABSL_GUARDED_BY(mutex_);
  bool beginning_ ABSL_GUARDED_BY(mutex_) = false;  // some thread is in BeginSome
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_BATCH_TURNS_H_
