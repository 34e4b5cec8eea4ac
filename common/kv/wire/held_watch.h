// HeldWatch: a watch that is requested before the store that will serve it is known.
//
// The requester's handle is made at once. Later, Open opens the watch of a store and moves the ends
// that the requester has moved. Or End ends the watch before it began.
//
// Threads: any. Open or End is called once.

#ifndef COMMON_KV_WIRE_HELD_WATCH_H_
#define COMMON_KV_WIRE_HELD_WATCH_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

class HeldWatch {
 public:
  HeldWatch(WatchRequest request, WatchObserver observer)
      : gate_(std::make_shared<ObserverGate>(std::move(observer))), request_(std::move(request)) {}

  // The requester's handle.
  static std::unique_ptr<Watch> HandleOf(std::shared_ptr<HeldWatch> watch);

  void Open(KvStore& store) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& why) { gate_->Lagged(why); }

 private:
  class Handle;

  void Close() ABSL_LOCKS_EXCLUDED(mu_);
  void MoveEnd(size_t range, std::string end) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<ObserverGate> gate_;

  WatchRequest request_;  // for Open

  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Watch> inner_ ABSL_GUARDED_BY(mu_);
  // The last end of each range that was moved before inner_ was there.
  std::map<size_t, std::string> moved_ends_ ABSL_GUARDED_BY(mu_);
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_HELD_WATCH_H_
