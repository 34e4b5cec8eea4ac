// LeaderLog: the log as the leader of one term writes it. It sends rows, settles unknown results,
// and appends again what the engine has lost (AppendWindow has the rules).
//
// It ends when another term leads, when rows are lost for good, or by Stop. Then every append
// without an answer fails, and it appends nothing any more.
//
// Threads: any. Callbacks run on a thread of the log or on the caller's, without a lock.

#ifndef COMMON_KV_REPLICA_LEADER_LOG_H_
#define COMMON_KV_REPLICA_LEADER_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/append_window.h"
#include "common/kv/replica/leader_lease.h"
#include "common/kv/replica/log_record.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class LeaderLog : public std::enable_shared_from_this<LeaderLog> {
 public:
  struct Options {
    LogTerm term;
    LogPlace place;                           // the log's end
    size_t recent_bytes_max = 64 << 20;       // rows kept in case that the engine loses them
    std::function<void(absl::Status)> ended;  // called once, but not for Stop. ABORTED: another
                                              // term leads. DATA_LOSS: acknowledged rows are lost
  };
  // `runtime` and `log` must outlive the last append and the last timer: call Stop and destroy the
  // log's other users before.
  LeaderLog(Runtime& runtime, SharedLog& log, Options options);

  // The place behind the row once it is acknowledged. Any error: the row may or may not be in the
  // log, and this leader will never know.
  using Done = std::function<void(absl::StatusOr<LogPlace>)>;
  void Append(std::string row, Done done) ABSL_LOCKS_EXCLUDED(mu_);

  void Stop() ABSL_LOCKS_EXCLUDED(mu_);
  // Another term leads, as the caller has read.
  void Depose() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends with the log.
  LeaderLease& lease() { return lease_; }
  const LogTerm& term() const { return options_.term; }
  // Behind the last acknowledged row.
  LogPlace place() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return place_;
  }

 private:
  void Flush() ABSL_LOCKS_EXCLUDED(mu_);
  void OnResult(const AppendResult& result) ABSL_LOCKS_EXCLUDED(mu_);
  void OnState(const absl::StatusOr<LogState>& state) ABSL_LOCKS_EXCLUDED(mu_);
  void Do(AppendWindow::Step step) ABSL_LOCKS_EXCLUDED(mu_);
  // Runs `retry` after a pause that grows with the failures.
  void Later(void (LeaderLog::*retry)()) ABSL_LOCKS_EXCLUDED(mu_);
  void SendAgain() ABSL_LOCKS_EXCLUDED(mu_);
  void ReadState() ABSL_LOCKS_EXCLUDED(mu_);
  void End(absl::Status why, bool tell) ABSL_LOCKS_EXCLUDED(mu_);

  Runtime& runtime_;
  SharedLog& log_;
  const Options options_;
  const std::shared_ptr<Executor> timers_;
  LeaderLease lease_;

  mutable absl::Mutex mu_;
  AppendWindow window_ ABSL_GUARDED_BY(mu_);
  LogPlace place_ ABSL_GUARDED_BY(mu_);                 // behind the last acknowledged row
  std::map<uint64_t, Done> done_ ABSL_GUARDED_BY(mu_);  // by sequence
  bool flushing_ ABSL_GUARDED_BY(mu_) = false;
  uint32_t failures_ ABSL_GUARDED_BY(mu_) = 0;  // since the last acknowledgement
  absl::Status ended_ ABSL_GUARDED_BY(mu_);     // OK while it leads
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_LEADER_LOG_H_
