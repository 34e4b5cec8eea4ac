// KvClient: a service's session with a KvStore.
//
// It opens the session and numbers commits. At most kv::kSessionWindow commits are outstanding;
// further ones wait in order, up to a bound. While a result is unknown, the client resends the same
// bytes. It also keeps `NowLow`, a lower bound of the store's time.
//
// If the store refuses the session (unknown, or a number outside its window), all waiting commits
// fail with ABORTED, and the client opens a new session. `on_session_lost` then tells the owner to
// drop its leases and all other state.
//
// Threads: any. Each callback is posted on the executor given with the call, in the order of the
// answers. A stopped executor drops it. Destroying a KvClient drops the callbacks that are not
// posted yet.

#ifndef COMMON_KV_CLIENT_KV_CLIENT_H_
#define COMMON_KV_CLIENT_KV_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

struct Commit {
  std::vector<Condition> fence = {};
  std::vector<Group> groups = {};
  // If not zero: while the store has no room, the client commits again after this delay instead of
  // answering RESOURCE_EXHAUSTED. The caller then needs no copy of the commit.
  absl::Duration again_without_room = absl::ZeroDuration();
};

class KvClient {
 public:
  template <typename T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  struct Options {
    std::string name;  // for logs and traces
    absl::Duration resend_min = absl::Milliseconds(20);
    absl::Duration resend_max = absl::Seconds(1);
    size_t waiting_commits_max = 4096;  // if more commits wait: RESOURCE_EXHAUSTED at once
    // Posted on `session_executor` when the store has refused the session.
    Closure on_session_lost;
    std::shared_ptr<Executor> session_executor;
  };

  // `store` and `runtime` must outlive the client.
  KvClient(KvStore& store, Runtime& runtime, Options options);
  ~KvClient();
  KvClient(const KvClient&) = delete;
  KvClient& operator=(const KvClient&) = delete;

  // Never answers UNAVAILABLE: it resends until the result is known, or until the session is lost
  // (ABORTED).
  void CommitAsync(Commit commit, std::shared_ptr<Executor> on, Callback<CommitResult> done);

  // Repeats the read while the store cannot be reached, then runs `done`.
  void MultiGet(std::vector<Key> keys, std::shared_ptr<Executor> on, Callback<GetResult> done);
  void Scan(ScanRequest request, std::shared_ptr<Executor> on, Callback<ScanResult> done);

  // Posts calls of the observer on `on`. If `excluding_own`, the watch leaves out the commits of
  // this client's session.
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, bool excluding_own,
                                   std::shared_ptr<Executor> on, WatchObserver observer);

  // A lower bound of the store's time; it holds if an answer came in the last lease TTL. It is the
  // largest store time of an answer, plus the time since then less 750 ppm. From an announced slow
  // phase on it advances at half pace. InfinitePast before the first answer. In whole microseconds,
  // like all stored times, so that writing and reading a time does not change its order.
  absl::Time NowLow() const;

  // True once a session is open.
  bool Connected() const;

  // The runtime given to the constructor. Callers without another way to it use it for perturbation
  // points.
  Runtime& runtime() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_CLIENT_KV_CLIENT_H_
