// ThreadedLog: SharedLogs in memory for stores that run on threads of their own. MemLog is for the
// simulation, on one thread; the rules of the log are the same code (MemLogState).
//
// All clients of one engine see one log. A client's calls can be held back, as those of a process
// that stands still or has lost its network, and appends can have unknown results.
//
// Threads: any. Callbacks run on a thread of each client.

#ifndef COMMON_KV_REPLICA_TESTING_THREADED_LOG_H_
#define COMMON_KV_REPLICA_TESTING_THREADED_LOG_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/log/memory/mem_log_state.h"
#include "common/kv/log/shared_log.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class ThreadedLogEngine {
 public:
  template <typename F>
  auto With(F use) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return use(state_);
  }

 private:
  absl::Mutex mu_;
  MemLogState state_ ABSL_GUARDED_BY(mu_);
};

class ThreadedLog final : public SharedLog {
 public:
  // The arguments must outlive the log.
  ThreadedLog(Runtime& runtime, ThreadedLogEngine& engine);
  ~ThreadedLog() override;

  // From now on calls wait and have no effect, until Go.
  void Hold() ABSL_LOCKS_EXCLUDED(mu_);
  void Go() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until `count` appends are held back.
  void AwaitHeldAppends(int count) ABSL_LOCKS_EXCLUDED(mu_);
  // The next `count` appends take effect, and their results are unknown.
  void LoseAnswers(int count) ABSL_LOCKS_EXCLUDED(mu_);
  // Parts of this file that are read have a wrong byte, as if no checksum of the engine had seen
  // it.
  void Damage(const SnapshotFile& file) ABSL_LOCKS_EXCLUDED(mu_);

  void ReadState(Callback<LogState> done) override;
  void Lead(LeadRequest request, Callback<LeadResult> done) override;
  void Append(AppendRequest request, std::function<void(AppendResult)> done) override;
  void Read(ReadRequest request, Callback<ReadResult> done) override;
  void MissingFiles(std::vector<SnapshotFile> files,
                    Callback<std::vector<SnapshotFile>> done) override;
  void PutPart(SnapshotPart part, std::function<void(absl::Status)> done) override;
  void PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) override;
  void ListSnapshots(Callback<std::vector<Snapshot>> done) override;
  void ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) override;
  void Trim(uint32_t snapshots_kept, Callback<TrimResult> done) override;
  void PutReport(std::string replica, std::string details,
                 std::function<void(absl::Status)> done) override;
  void ListReports(Callback<std::vector<ReplicaReport>> done) override;

 private:
  void Do(Closure call) ABSL_LOCKS_EXCLUDED(mu_);
  // `decide(state)` runs under the engine's lock.
  template <typename Done, typename F>
  void Answer(Done done, F decide);

  Runtime& runtime_;
  ThreadedLogEngine& engine_;
  const std::shared_ptr<Executor> executor_;
  absl::Mutex mu_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Closure> waiting_ ABSL_GUARDED_BY(mu_);
  int appends_held_ ABSL_GUARDED_BY(mu_) = 0;
  int answers_to_lose_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<std::string> damaged_ ABSL_GUARDED_BY(mu_);  // hashes
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_TESTING_THREADED_LOG_H_
