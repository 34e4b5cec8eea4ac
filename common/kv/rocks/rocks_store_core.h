// RocksStoreCore: the threads of a RocksKvStore and their shared state; rocks_kv_store.h says what
// each thread does.

#ifndef COMMON_KV_ROCKS_ROCKS_STORE_CORE_H_
#define COMMON_KV_ROCKS_ROCKS_STORE_CORE_H_

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/engine/watch_hub.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/rocks/witness_file.h"

namespace escapement::kv {

class RocksStoreCore {
 public:
  RocksStoreCore(RocksKvStore::Options options, Clock& clock,
                 std::unique_ptr<RocksDatabase> database, std::unique_ptr<WitnessFile> witness,
                 std::unique_ptr<StoreKernel> kernel, Layout layout);

  void Start();
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // A commit, or the opening of a session if `request` is null.
  struct Work {
    std::shared_ptr<const CommitRequest> request;
    std::optional<PendingAnswer<CommitResult>> committed;
    // The queue was full. The refusal is answered in its turn, after an earlier copy of the same
    // commit.
    bool refused = false;
    uint64_t seen_incarnation = 0;
    CommitSeq seen = 0;
    std::optional<PendingAnswer<SessionInfo>> opened;
  };
  void Enqueue(Work work) ABSL_LOCKS_EXCLUDED(mu_);
  // Runs `control` on the writer's thread before the next commit is published.
  void RunOnWriter(Closure control) ABSL_LOCKS_EXCLUDED(mu_);
  void AskClock(ClockCall call, KvStore::Callback<ClockState> done);

  struct View {
    std::shared_ptr<const RocksDatabase::Snapshot> snapshot;
    CommitSeq seq = 0;
    absl::Time store_time;
    absl::Time slow_from = absl::InfiniteFuture();
  };
  // Runs `read` on a reading thread, with the latest published state.
  void Read(absl::AnyInvocable<void(const View&)> read) ABSL_LOCKS_EXCLUDED(read_mu_);

  RocksKvStore::Info info() const ABSL_LOCKS_EXCLUDED(mu_);
  WatchHub& hub() { return hub_; }  // only on the writer's thread

 private:
  // Only on the writer's thread. Asks the kernel only if it matters, because that takes a system
  // call.
  ClockReading Reading() const {
    const bool stepped =
        absl::AbsDuration(kernel_->clock().disagreement()) > StoreClock::kFollowMax;
    return {clock_.Elapsed(), clock_.WallNow(), stepped && clock_.WallIsSynchronised()};
  }
  void RunWriter() ABSL_LOCKS_EXCLUDED(mu_);
  void RunReader() ABSL_LOCKS_EXCLUDED(read_mu_);
  void RunWitness() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteWitness() ABSL_LOCKS_EXCLUDED(mu_);
  bool TakeQueue(std::vector<Work>& batch) ABSL_LOCKS_EXCLUDED(mu_);
  void RunControls() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasRoom();
  void RefuseAll(std::vector<Work> batch);
  void CommitBatch(std::vector<Work> batch);
  void Publish(bool wrote) ABSL_LOCKS_EXCLUDED(mu_);
  View Latest() const ABSL_LOCKS_EXCLUDED(mu_);

  const RocksKvStore::Options options_;
  Clock& clock_;
  const Layout layout_;
  const std::unique_ptr<RocksDatabase> database_;
  // Used by the witness thread and, after that has ended, by Stop.
  const std::unique_ptr<WitnessFile> witness_;
  Witnessed witnessed_;

  // Used by the writer's thread.
  const std::unique_ptr<StoreKernel> kernel_;
  WatchHub hub_;
  uint64_t bytes_until_room_check_ = 0;
  bool has_room_ = true;

  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<Closure> controls_ ABSL_GUARDED_BY(mu_);
  View published_ ABSL_GUARDED_BY(mu_);
  absl::Duration published_at_ ABSL_GUARDED_BY(mu_);
  RocksKvStore::Info info_ ABSL_GUARDED_BY(mu_);

  absl::Mutex read_mu_;
  bool reads_stopping_ ABSL_GUARDED_BY(read_mu_) = false;
  std::deque<absl::AnyInvocable<void(const View&)>> reads_ ABSL_GUARDED_BY(read_mu_);

  std::thread writer_;
  std::thread witness_thread_;
  std::vector<std::thread> readers_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_STORE_CORE_H_
