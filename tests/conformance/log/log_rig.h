// LogRig: three replicas' SharedLogs over one log, and calls that wait for their answers.
//
// Threads: one at a time.

#ifndef TESTS_CONFORMANCE_LOG_LOG_RIG_H_
#define TESTS_CONFORMANCE_LOG_LOG_RIG_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

inline constexpr size_t kReplicas = 3;

// An answer that comes on another thread, or when the simulation's time goes on.
template <typename T>
struct LogAnswer {
  absl::Mutex mu;
  std::optional<T> value;  // guarded by mu

  static std::function<void(T)> Into(std::shared_ptr<LogAnswer> answer) {
    return [answer = std::move(answer)](T value) {
      absl::MutexLock lock(&answer->mu);
      answer->value.emplace(std::move(value));
    };
  }
};

class LogRig {
 public:
  virtual ~LogRig() = default;
  virtual SharedLog& log(size_t replica) = 0;
  // Ends the connections of the replica now.
  virtual void Disconnect(size_t replica) = 0;
  // Returns when `done` is true, which is called with `mu` held; aborts after a minute.
  virtual void Await(absl::Mutex& mu, absl::FunctionRef<bool()> done) = 0;

  template <typename T>
  T Wait(const std::shared_ptr<LogAnswer<T>>& answer) {
    Await(answer->mu, [&] { return answer->value.has_value(); });
    absl::MutexLock lock(&answer->mu);
    return *std::exchange(answer->value, std::nullopt);
  }
  // `call(callback)` starts the call.
  template <typename T, typename F>
  T Call(F call) {
    auto answer = std::make_shared<LogAnswer<T>>();
    call(LogAnswer<T>::Into(answer));
    return Wait(answer);
  }

  LogState State(size_t replica);
  absl::StatusOr<LeadResult> TryLead(size_t replica, const LogState& seen,
                                     const std::string& owner);
  // With the present state.
  LeadResult Lead(size_t replica, const std::string& owner);
  std::shared_ptr<LogAnswer<AppendResult>> StartAppend(size_t replica, AppendRequest request);
  AppendResult Append(size_t replica, AppendRequest request);
  absl::StatusOr<ReadResult> Read(size_t replica, ReadRequest request);
  absl::Status PutPart(size_t replica, SnapshotPart part);
  absl::Status PutSnapshot(size_t replica, Snapshot snapshot);
  absl::StatusOr<std::vector<SnapshotFile>> MissingFiles(size_t replica,
                                                         std::vector<SnapshotFile> files);
  // All parts of a file with these bytes.
  absl::Status PutFile(size_t replica, absl::string_view bytes);
  std::vector<Snapshot> Snapshots(size_t replica);
  absl::StatusOr<std::string> ReadPart(size_t replica, SnapshotFile file, uint32_t index);
  absl::StatusOr<TrimResult> Trim(size_t replica, uint32_t snapshots_kept);
  // Until there is no more to trim.
  absl::Status TrimAll(size_t replica, uint32_t snapshots_kept);
  absl::Status PutReport(size_t replica, const std::string& name, const std::string& details);
  absl::StatusOr<std::vector<ReplicaReport>> Reports(size_t replica);
  // Appends the rows until the result is known, as a leader does.
  AppendResult AppendSurely(size_t replica, const AppendRequest& request);
};

// One append of rows with these bytes.
AppendRequest Rows(const LogTerm& term, const LogPosition& after,
                   const std::vector<std::string>& rows);
LogPosition EndOf(const AppendRequest& request);

// A file with these bytes, and its parts.
SnapshotFile FileOf(absl::string_view bytes);
std::vector<SnapshotPart> PartsOf(absl::string_view bytes);

std::unique_ptr<LogRig> MakeMemRig();
// All share one PostgreSQL of this process; each rig has a log of its own there.
std::unique_ptr<LogRig> MakePgRig();
// The same, with the files of snapshots in an S3 of this process.
std::unique_ptr<LogRig> MakeS3Rig();

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_LOG_LOG_RIG_H_
