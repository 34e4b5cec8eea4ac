// MemLeadingStore: the store of a leader whose copy is in memory. It does what RocksStoreCore does
// with a BatchLog, on one executor and without waiting: one batch is under way at a time, and what
// the batch decides is applied, published and answered once its row is acknowledged.
//
// Threads: the simulation's. Callbacks run on the store's executor.

#ifndef COMMON_KV_REPLICA_TESTING_MEM_LEADING_STORE_H_
#define COMMON_KV_REPLICA_TESTING_MEM_LEADING_STORE_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/engine/store_kernel.h"
#include "common/kv/engine/watch_hub.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/kv/replica/leader_log.h"
#include "common/kv/replica/takeover_timer.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class MemLeadingStore final : public KvStore, public std::enable_shared_from_this<MemLeadingStore> {
 public:
  using Records = std::vector<std::shared_ptr<const CommitRecord>>;
  struct Options {
    absl::Duration lease_ttl = absl::Seconds(5);
    absl::Duration beat_interval = kBeatInterval;
    size_t commits_queued_max = 65'536;
    size_t watch_history_bytes_max = 1 << 20;
    int recent_slots_log2 = 12;
    // Where the leader is now, for those that are turned away.
    std::function<std::string()> leader_address;
    // Called with each batch before it is sent to the log: its row, and the commits in it. May be
    // empty.
    std::function<void(absl::string_view row, const Records& records)> on_batch;
    // Plants a fault: reads are answered although the lease has ended.
    bool ignores_lease = false;
  };

  // Begins with a batch. `started` runs once that is acknowledged or refused. Errors as
  // StoreKernel::Load; then `started` does not run. `runtime` and `disk` must outlive the store's
  // End.
  static absl::StatusOr<std::shared_ptr<MemLeadingStore>> Open(
      Runtime& runtime, Options options, MemDisk& disk, std::shared_ptr<LeaderLog> log,
      absl::Duration clock_age, std::function<void(absl::Status)> started);

  // See ReplicaCopy::WriteHandover.
  void WriteHandover(Closure done);
  // Ends all calls and watches. Idempotent.
  void End();
  absl::Time store_time() const { return Latest(); }

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override;
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override;
  void Scan(ScanRequest request, Callback<ScanResult> done) override;
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override;
  void AskClock(ClockCall call, Callback<ClockState> done) override;

 private:
  class Handle;
  // A commit, or the opening of a session if `request` is null.
  struct Work {
    std::shared_ptr<const CommitRequest> request;
    std::optional<PendingAnswer<CommitResult>> committed;
    bool refused = false;  // the queue was full
    uint64_t seen_incarnation = 0;
    CommitSeq seen = 0;
    std::optional<PendingAnswer<SessionInfo>> opened;
  };
  template <typename T>
  using Answers = std::vector<std::pair<PendingAnswer<T>, absl::StatusOr<T>>>;
  struct Batch {
    absl::Duration began;
    absl::Time store_time;
    absl::Time slow_from;
    bool wrote = false;
    std::string row;
    Records records;
    Answers<SessionInfo> opened;
    Answers<CommitResult> committed;
    Answers<ClockState> clocks;
  };

  MemLeadingStore(Runtime& runtime, Options options, MemDisk& disk, std::shared_ptr<LeaderLog> log,
                  std::function<void(absl::Status)> started);
  ClockReading Reading() const;
  void Enqueue(Work work);
  void StartBatch(RecordKind kind = RecordKind::kBatch);
  void Decide(Work work, Batch& batch);
  void FinishBatch(const absl::StatusOr<LogPlace>& place);
  void Apply(Batch& batch, const LogPlace& place);
  void Answer(Batch batch);
  void GoOn();
  void Beat();
  void AskClockNow(const ClockCall& call, PendingAnswer<ClockState> answer);
  absl::Status MayAnswer() const;
  // A lower bound of the present store time, without a step that is not recorded.
  absl::Time Latest() const;

  Runtime& runtime_;
  Clock& clock_;
  const Options options_;
  MemDisk& disk_;
  DiskState base_;
  const std::shared_ptr<LeaderLog> log_;
  const std::shared_ptr<Executor> executor_;
  std::function<void(absl::Status)> started_;  // null once it has run
  std::unique_ptr<StoreKernel> kernel_;
  std::unique_ptr<WatchHub> hub_;
  std::deque<Work> queue_;
  std::optional<Batch> batch_;    // under way
  std::deque<Closure> controls_;  // calls on the clock, for the end of the batch
  Answers<ClockState> clocks_;    // wait for the next batch, which records a step of the clock
  Closure handed_over_;           // null without a handover
  bool stopping_ = false;         // begins no batch any more
  bool ended_ = false;
  absl::Duration logged_;  // when the last acknowledged batch began
  // As of that batch.
  CommitSeq seq_ = 0;
  absl::Time published_time_;
  absl::Duration published_at_;
  absl::Time slow_from_ = absl::InfiniteFuture();
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_TESTING_MEM_LEADING_STORE_H_
