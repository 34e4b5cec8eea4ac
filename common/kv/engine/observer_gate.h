// ObserverGate: calls a watch's observer until the gate is closed. No call begins after Close() has
// returned. Close() waits for a call that runs on another thread, but not for a call that it is
// called from.

#ifndef COMMON_KV_ENGINE_OBSERVER_GATE_H_
#define COMMON_KV_ENGINE_OBSERVER_GATE_H_

#include <atomic>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/kv_store.h"

namespace escapement::kv {

class ObserverGate {
 public:
  explicit ObserverGate(WatchObserver observer) : observer_(std::move(observer)) {}

  void Batch(WatchBatch batch) {
    Call([&] {
      if (observer_.on_batch) observer_.on_batch(std::move(batch));
    });
  }

  // Makes the last call and closes the gate.
  void Lagged(const absl::Status& why) {
    Call([&] {
      closed_ = true;
      if (observer_.on_lagged) observer_.on_lagged(why);
    });
  }

  void Close() {
    if (caller_.load(std::memory_order_acquire) == std::this_thread::get_id()) {
      closed_ = true;
      return;
    }
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }

  bool closed() const { return closed_; }

 private:
  template <typename F>
  void Call(F call) {
    absl::MutexLock lock(&mu_);
    if (closed_) return;
    caller_.store(std::this_thread::get_id(), std::memory_order_release);
    call();
    caller_.store(std::thread::id(), std::memory_order_release);
  }

  absl::Mutex mu_;  // held during calls
  std::atomic<bool> closed_{false};
  std::atomic<std::thread::id> caller_{std::thread::id()};  // the thread that runs a call now
  WatchObserver observer_;                                  // called with mu_ held
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_OBSERVER_GATE_H_
