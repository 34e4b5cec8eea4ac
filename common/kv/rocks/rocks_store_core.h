// RocksStoreCore: the threads of a RocksKvStore and their shared state; rocks_kv_store.h says what
// each thread does.
//
// With a BatchLog (a replica's leader) a batch becomes durable there instead of on the disk. Then
// there is no witness, and the writer makes a batch at least every `beat_interval`.

#ifndef COMMON_KV_ROCKS_ROCKS_STORE_CORE_H_
#define COMMON_KV_ROCKS_ROCKS_STORE_CORE_H_

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/engine/watch_hub.h"
#include "common/kv/rocks/batch_log.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/rocks/witness_file.h"

namespace escapement::kv {

class RocksStoreCore {
 public:
  // `witness` and `log` may be null, but not both. `log` must outlive the core.
  RocksStoreCore(RocksKvStore::Options options, Clock& clock,
                 std::unique_ptr<RocksDatabase> database, std::unique_ptr<WitnessFile> witness,
                 BatchLog* log, std::unique_ptr<StoreKernel> kernel, Layout layout);

  // With a log it first writes a batch there, so that the store time is recorded before anybody
  // learns of it. Then the errors are the log's.
  absl::Status Start();
  // Idempotent. kYes, only with a log: writes a last batch, after which nothing is answered.
  void Stop(BatchLog::Last last = BatchLog::Last::kNo) ABSL_LOCKS_EXCLUDED(mu_);
  // After Stop.
  std::unique_ptr<RocksDatabase> TakeDatabase() ABSL_LOCKS_EXCLUDED(checkpoint_mu_) {
    absl::MutexLock lock(&checkpoint_mu_);
    return std::move(database_);
  }

  absl::Status MakeCheckpoint(const std::string& folder) ABSL_LOCKS_EXCLUDED(checkpoint_mu_) {
    absl::MutexLock lock(&checkpoint_mu_);
    if (database_ == nullptr) return absl::UnavailableError("the store has stopped");
    return database_->MakeCheckpoint(folder);
  }

  // OK if what was read before this call may be answered.
  absl::Status MayAnswer() const { return log_ == nullptr ? absl::OkStatus() : log_->MayAnswer(); }

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
  // True if a batch is due although no commit waits.
  bool WantsBatch(const ClockReading& now);
  void RunWriter() ABSL_LOCKS_EXCLUDED(mu_);
  void RunReader() ABSL_LOCKS_EXCLUDED(read_mu_);
  void RunWitness() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteWitness() ABSL_LOCKS_EXCLUDED(mu_);
  bool TakeQueue(std::vector<Work>& batch) ABSL_LOCKS_EXCLUDED(mu_);
  void RunControls() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasRoom();
  void RefuseAll(std::vector<Work> batch);
  // False if the log has ended: the works get no answer, and nothing may be published any more.
  bool CommitBatch(std::vector<Work> batch, const ClockReading& now,
                   BatchLog::Last last = BatchLog::Last::kNo);
  bool MakeDurable(bool wrote, const ClockReading& now);
  // Publishes the state at `now`, which the last batch or call of WantsBatch has read. So the
  // published store time never contains a step of the clock that is not recorded.
  void Publish(bool wrote, const ClockReading& now) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status WhyStopped() const;
  View Latest() const ABSL_LOCKS_EXCLUDED(mu_);

  const RocksKvStore::Options options_;
  Clock& clock_;
  const Layout layout_;
  absl::Mutex checkpoint_mu_;  // held while a checkpoint needs `database_` to stay
  std::unique_ptr<RocksDatabase> database_;
  // Used by the witness thread and, after that has ended, by Stop.
  const std::unique_ptr<WitnessFile> witness_;
  Witnessed witnessed_;
  BatchLog* const log_;

  // Used by the writer's thread.
  const std::unique_ptr<StoreKernel> kernel_;
  WatchHub hub_;
  uint64_t bytes_until_room_check_ = 0;
  bool has_room_ = true;
  absl::Duration logged_ = absl::ZeroDuration();  // when the last batch of the log began
  // Answers that wait for the next batch, because a step of the clock must be recorded first.
  std::vector<std::pair<PendingAnswer<ClockState>, ClockState>> clock_answers_;

  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ = false;  // only Stop
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
