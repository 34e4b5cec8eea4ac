// The inside of a KvClient: its session (KvClient::Core) and its watches (ClientWatch).

#ifndef COMMON_KV_CLIENT_KV_CLIENT_CORE_H_
#define COMMON_KV_CLIENT_KV_CLIENT_CORE_H_

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// ClientWatch: a watch of a KvClient. It opens a watch of the store once there is a session, and
// posts its batches to the watcher's executor, up to a bound in bytes.
//
// Threads: any. The observer is called on `on` only.
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

// KvClient::Core: the session of a KvClient; kv_client.h has the contract.
//
// Threads: any. One thread at a time calls the store, without the lock, in the order of the
// numbers.
class KvClient::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(KvStore& store, Runtime& runtime, Options options)
      : store_(store),
        runtime_(runtime),
        options_(std::move(options)),
        timers_(runtime.NewExecutor("kv-client " + options_.name)) {}

  void OpenSession() ABSL_LOCKS_EXCLUDED(mu_);
  // At once, and then about once a second: reports this machine's wall clock to the store, and
  // notes the store's time. Does nothing on a machine without a boot id.
  void TellClock();
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);
  void Commit(kv::Commit commit, std::shared_ptr<Executor> on, Callback<CommitResult> done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `read(store)` now, or once there is a session. Repeats it while the store cannot be
  // reached.
  template <typename T>
  struct Read {
    std::function<void(KvStore&, KvStore::Callback<T>)> send;
    std::shared_ptr<Executor> on;
    Callback<T> done;
    int attempts = 0;
  };
  template <typename T>
  void StartRead(std::shared_ptr<Read<T>> read) ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<ClientWatch> OpenWatch(WatchRequest request, bool excluding_own,
                                         std::shared_ptr<Executor> on, WatchObserver observer)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Time NowLow() const ABSL_LOCKS_EXCLUDED(mu_);
  bool Connected() const ABSL_LOCKS_EXCLUDED(mu_);
  Runtime& runtime() const { return runtime_; }

 private:
  struct Waiting {
    kv::Commit commit;
    std::shared_ptr<Executor> on;
    Callback<CommitResult> done;
  };
  struct Outstanding {
    std::shared_ptr<const CommitRequest> request;  // null: the slot is free
    bool unknown = false;                          // the last attempt ended without a result
    // seen_ when the commit was numbered.
    CommitSeq seen = 0;
    absl::Duration again_without_room;
    std::shared_ptr<Executor> on;
    Callback<CommitResult> done;
  };
  Outstanding& SlotOf(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return slots_[number % kSessionWindow];
  }

  void OnSession(absl::StatusOr<SessionInfo> info) ABSL_LOCKS_EXCLUDED(mu_);
  void OnAnswer(uint64_t session, uint64_t number, absl::StatusOr<CommitResult> answer)
      ABSL_LOCKS_EXCLUDED(mu_);
  template <typename T>
  void OnRead(std::shared_ptr<Read<T>> read, absl::StatusOr<T> answer) ABSL_LOCKS_EXCLUDED(mu_);
  // Commits are sent only after two steps. The store was compared with what this client has seen,
  // and the waiting watches are open: they must deliver everything written from then on.
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return session_ != 0 && opening_ == 0; }
  void LoseSession() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ResendUnknown() ABSL_LOCKS_EXCLUDED(mu_);
  // Commits again after commit.again_without_room.
  void CommitLater(kv::Commit commit, std::shared_ptr<Executor> on, Callback<CommitResult> done);
  // Numbers waiting commits while the window has room and every result is known.
  void NumberWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends the commits of outbox_ in order; does not hold the lock during the calls.
  void Flush() ABSL_LOCKS_EXCLUDED(mu_);
  void NoteTime(absl::Time store_time, CommitSeq seq) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Call it before NoteTime of the same answer.
  void NotePace(absl::Time store_time, const Pace& pace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A lower bound of how far store time has advanced since time_base_, at full pace.
  absl::Duration PassedSinceBase(absl::Duration elapsed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Time NowLowLocked(absl::Duration elapsed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Duration Backoff(int attempts) const;

  KvStore& store_;
  Runtime& runtime_;
  Options options_;
  const std::shared_ptr<Executor> timers_;

  mutable absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t session_ ABSL_GUARDED_BY(mu_) = 0;  // 0 = none yet
  int opening_ ABSL_GUARDED_BY(mu_) = 0;       // running calls that open watches in a new session
  int open_attempts_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t seen_incarnation_ ABSL_GUARDED_BY(mu_) = 0;
  CommitSeq seen_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time time_base_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Duration time_base_elapsed_ ABSL_GUARDED_BY(mu_);
  absl::Duration slowed_at_base_ ABSL_GUARDED_BY(mu_);  // Pace::slowed at time_base_, or less
  // The pace in the latest answer that carried one, and that answer's store time + slowed.
  Pace pace_ ABSL_GUARDED_BY(mu_);
  absl::Time pace_told_at_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();

  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  uint64_t oldest_ ABSL_GUARDED_BY(mu_) = 1;  // numbers in [oldest_, next_) may be outstanding
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::array<Outstanding, kSessionWindow> slots_ ABSL_GUARDED_BY(mu_);
  size_t unknown_ ABSL_GUARDED_BY(mu_) = 0;
  int resends_ ABSL_GUARDED_BY(mu_) = 0;  // since the last answer; for the backoff
  bool resend_timer_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::shared_ptr<const CommitRequest>> outbox_ ABSL_GUARDED_BY(mu_);
  bool flushing_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<Closure> reads_waiting_ ABSL_GUARDED_BY(mu_);  // reads that wait for a session
  std::vector<std::weak_ptr<ClientWatch>> watches_ ABSL_GUARDED_BY(mu_);
};

extern template void KvClient::Core::StartRead(std::shared_ptr<Read<GetResult>> read);
extern template void KvClient::Core::StartRead(std::shared_ptr<Read<ScanResult>> read);

}  // namespace escapement::kv

#endif  // COMMON_KV_CLIENT_KV_CLIENT_CORE_H_
