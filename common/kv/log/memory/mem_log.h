// MemLog: a SharedLog for the simulation. Several share a MemLogEngine, which has the faults.
//
// As PgLog it has two connections: one appends and leads, the other does the rest.
//
// Threads: as the engine. Callbacks run on an executor of the client's runtime, and never after the
// client's process was killed.

#ifndef COMMON_KV_LOG_MEMORY_MEM_LOG_H_
#define COMMON_KV_LOG_MEMORY_MEM_LOG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/log/memory/mem_log_engine.h"
#include "common/kv/log/shared_log.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class MemLog final : public SharedLog {
 public:
  struct Options {
    std::string name;                               // for the engine's faults
    absl::Duration silence_max = absl::Seconds(2);  // a silent connection counts as lost after this
  };

  // `runtime` is that of the client's process. Engine and runtime must outlive the log.
  MemLog(Runtime& runtime, MemLogEngine& engine, Options options);
  ~MemLog() override;

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
  class Link;

  MemLogEngine& engine_;
  const std::shared_ptr<Executor> executor_;
  const std::shared_ptr<Link> writer_;
  const std::shared_ptr<Link> worker_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_MEMORY_MEM_LOG_H_
