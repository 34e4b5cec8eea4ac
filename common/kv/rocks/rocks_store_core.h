// RocksStoreCore: the threads of a RocksKvStore and their shared state; rocks_kv_store.h says what
// each thread does.
//
// With a BatchLog (a replica's leader) a batch becomes durable there instead of on the disk. Then
// there is no witness, and the writer makes a batch at least every `beat_interval`. While a batch
// is on its way to the log, the writer decides and sends the next one. Batches are written to the
// database, published and answered one after the other, once they are durable. So the database has
// only durable batches, and nobody sees or learns of a batch that may still be lost.

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
#include "common/kv/rocks/decided_batch.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/rocks/room_wait.h"
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
  // Stop, unless that has been called. It also ends the wait of writes for room on the disk.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);
  // After Stop.
  std::unique_ptr<RocksDatabase> TakeDatabase() ABSL_LOCKS_EXCLUDED(database_mu_) {
    absl::MutexLock lock(&database_mu_);
    return std::move(database_);
  }

  absl::Status MakeCheckpoint(const std::string& folder) ABSL_LOCKS_EXCLUDED(database_mu_) {
    absl::ReaderMutexLock lock(&database_mu_);
    if (database_ == nullptr) return absl::UnavailableError("the store has stopped");
    return database_->MakeCheckpoint(folder);
  }
  StoreSize size() const ABSL_LOCKS_EXCLUDED(database_mu_) {
    absl::ReaderMutexLock lock(&database_mu_);
    return database_ == nullptr ? StoreSize() : database_->size();
  }

  // OK if what was read before this call may be answered.
  absl::Status MayAnswer() const { return log_ == nullptr ? absl::OkStatus() : log_->MayAnswer(); }

  using Work = StoreWork;
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
  StoreState StateAt(const ClockReading& now);
  // True if the kernel's state at `now` may be published. With a log it must be durable: then no
  // batch is under way, and the store time contains no step of the clock that is not recorded.
  bool IsRecorded(const ClockReading& now);
  // True if a batch is due although no commit waits.
  bool WantsBatch(const ClockReading& now);
  void RunWriter() ABSL_LOCKS_EXCLUDED(mu_);
  void RunReader() ABSL_LOCKS_EXCLUDED(read_mu_);
  void RunWitness() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteWitness() ABSL_LOCKS_EXCLUDED(mu_);
  bool MayDecide() const;
  bool TakeQueue(std::vector<Work>& works) ABSL_LOCKS_EXCLUDED(mu_);
  void RunControls() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasRoom(const ClockReading& now) ABSL_LOCKS_EXCLUDED(mu_);
  void RefuseAll(std::vector<Work> works);
  // Decides a batch. Without a log it also finishes the batch; with one it sends the batch, and
  // Settle finishes it.
  void CommitBatch(std::vector<Work> works, const ClockReading& now,
                   BatchLog::Last last = BatchLog::Last::kNo);
  std::unique_ptr<DecidedBatch> Decide(std::vector<Work> works, const ClockReading& now,
                                       BatchLog::Last last);
  void Send(std::unique_ptr<DecidedBatch> batch, const ClockReading& now);
  // Finishes the batches under way that are durable. kAll: waits until none is under way. Returns
  // false if the log has ended: then no batch is under way, the works of those that were get no
  // answer, and nothing may be published any more.
  enum class Wait : bool { kNo, kAll };
  bool Settle(Wait wait) ABSL_LOCKS_EXCLUDED(mu_);
  // Publishes a durable batch, and answers.
  void Finish(DecidedBatch& batch) ABSL_LOCKS_EXCLUDED(mu_);
  // `snapshot`: of the database as it is now, otherwise the last published one stays.
  void Publish(const StoreState& state, bool snapshot) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status WhyStopped() const;
  View Latest() const ABSL_LOCKS_EXCLUDED(mu_);

  const RocksKvStore::Options options_;
  Clock& clock_;
  const Layout layout_;
  // Held by the threads that need `database_` to stay although the store may be stopped.
  mutable absl::Mutex database_mu_;
  std::unique_ptr<RocksDatabase> database_;
  const std::shared_ptr<RoomWait> room_;  // the database's
  // Used by the witness thread and, after that has ended, by Stop.
  const std::unique_ptr<WitnessFile> witness_;
  Witnessed witnessed_;
  BatchLog* const log_;

  // Used by the writer's thread.
  const std::unique_ptr<StoreKernel> kernel_;
  WatchHub hub_;
  uint64_t bytes_until_room_check_ = 0;
  absl::Duration next_room_check_ = absl::ZeroDuration();  // boottime
  bool has_room_ = true;
  // Only with a log: batches that are decided and not finished, oldest first.
  std::deque<std::unique_ptr<DecidedBatch>> under_way_;
  std::vector<std::unique_ptr<RocksDatabase::Batch>> unused_writes_;
  bool log_ended_ = false;
  absl::Duration logged_ = absl::ZeroDuration();  // when the last batch that was sent began
  // An operator's confirmation has moved the clock, and no batch since then is sent.
  bool step_unrecorded_ = false;
  // Answers that wait for the next batch, because the clock's state was not recorded.
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
