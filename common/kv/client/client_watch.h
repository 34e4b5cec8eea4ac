// ClientWatch: a watch of a KvClient. It opens a watch of the store once there is a session, and
// posts its batches to the watcher's executor, up to a bound in bytes.
//
// Threads: any. The observer is called on `on` only.

#ifndef COMMON_KV_CLIENT_CLIENT_WATCH_H_
#define COMMON_KV_CLIENT_CLIENT_WATCH_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class ClientWatch : public std::enable_shared_from_this<ClientWatch> {
 public:
  // If more bytes than this are posted but not handled yet, the watcher is too slow and lags.
  static constexpr size_t kPostedBytesMax = 16 << 20;

  // `runtime` is the client's. The client detaches the watch before it ends.
  ClientWatch(Runtime& runtime, WatchRequest request, bool excluding_own,
              std::shared_ptr<Executor> on, WatchObserver observer)
      : runtime_(runtime),
        excluding_own_(excluding_own),
        on_(std::move(on)),
        gate_(std::move(observer)),
        request_(std::move(request)) {}

  bool excluding_own() const { return excluding_own_; }
  bool closed() const { return gate_.closed(); }

  // Opens the store's watch. Called once.
  void Open(KvStore& store, uint64_t session);
  void MoveEnd(size_t range, std::string end);
  // Posts the last call of the observer.
  void Lag(absl::Status why);
  // No call of the observer begins after this.
  void Close();
  // Releases the store's watch; the observer gets no further call.
  void Detach();

 private:
  void OnBatch(WatchBatch batch);

  Runtime& runtime_;
  const bool excluding_own_;
  const std::shared_ptr<Executor> on_;
  ObserverGate gate_;

  absl::Mutex mu_;
  WatchRequest request_ ABSL_GUARDED_BY(mu_);
  bool opened_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Watch> inner_ ABSL_GUARDED_BY(mu_);

  absl::Mutex posted_mu_;
  size_t posted_bytes_ ABSL_GUARDED_BY(posted_mu_) = 0;
  bool lagged_ ABSL_GUARDED_BY(posted_mu_) = false;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_CLIENT_CLIENT_WATCH_H_
