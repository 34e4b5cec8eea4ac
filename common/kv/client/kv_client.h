// KvClient: a service's session with a KvStore.
//
// It opens the session, numbers commits, keeps at most kv::kSessionWindow of them outstanding
// (further ones wait in order, up to a bound), resends the same bytes while a result is unknown,
// and keeps `now_low`, a lower bound of the store's time. When the store refuses the session
// (unknown, outside its window), `on_session_lost` tells the owner to drop its leases and
// everything it holds, all waiting commits fail with ABORTED, and a new session is opened.
//
// Threads: any. Every callback is posted on the executor given with the call, in the order of the
// answers; once that executor is stopped it is dropped. Destroying a KvClient drops callbacks that
// have not been posted.

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
};

class KvClient {
 public:
  template <typename T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  struct Options {
    std::string name;  // for logs and traces
    absl::Duration resend_min = absl::Milliseconds(20);
    absl::Duration resend_max = absl::Seconds(1);
    size_t waiting_commits_max = 4096;  // beyond: RESOURCE_EXHAUSTED at once
    // Posted on `session_executor` when the session was refused.
    Closure on_session_lost;
    std::shared_ptr<Executor> session_executor;
  };

  // `store` and `runtime` outlive the client.
  KvClient(KvStore& store, Runtime& runtime, Options options);
  ~KvClient();
  KvClient(const KvClient&) = delete;
  KvClient& operator=(const KvClient&) = delete;

  // Never answers UNAVAILABLE: it resends until the result is known or the session is lost
  // (ABORTED).
  void CommitAsync(Commit commit, std::shared_ptr<Executor> on, Callback<CommitResult> done);

  // Reads are repeated while the store cannot be reached, until `done` has run.
  void MultiGet(std::vector<Key> keys, std::shared_ptr<Executor> on, Callback<GetResult> done);
  void Scan(ScanRequest request, std::shared_ptr<Executor> on, Callback<ScanResult> done);

  // Observer calls are posted on `on`. The own session's commits are left out if `excluding_own`.
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, bool excluding_own,
                                   std::shared_ptr<Executor> on, WatchObserver observer);

  // The largest of (store time of an answer + time elapsed since it was received, less 750 ppm, and
  // at half pace from an announced slow phase on): never above the store's time, if an answer has
  // come in the last lease TTL. InfinitePast before the first answer. In whole microseconds, as
  // all times that are stored: what lies before it still does once it has been written.
  absl::Time NowLow() const;

  // True once a session is open.
  bool Connected() const;

  // The one given: for perturbation points of those who have nothing else of it.
  Runtime& runtime() const;

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_CLIENT_KV_CLIENT_H_
