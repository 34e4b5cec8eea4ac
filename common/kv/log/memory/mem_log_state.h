// MemLogState: what a shared log's engine keeps, as a value in memory. Its methods decide each call
// of SharedLog as the contract says, at once and as a whole.
//
// Threads: one at a time.

#ifndef COMMON_KV_LOG_MEMORY_MEM_LOG_STATE_H_
#define COMMON_KV_LOG_MEMORY_MEM_LOG_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

class MemLogState {
 public:
  const LogState& state() const { return state_; }
  const std::map<uint64_t, LogRow>& rows() const { return rows_; }

  // `genesis` is the chain of the first row, if this call makes the log.
  absl::StatusOr<LeadResult> Lead(const LeadRequest& request, uint64_t genesis);
  AppendResult Append(const AppendRequest& request);
  absl::StatusOr<ReadResult> Read(const ReadRequest& request) const;
  std::vector<SnapshotFile> MissingFiles(const std::vector<SnapshotFile>& files) const;
  void PutPart(const SnapshotPart& part);
  absl::Status PutSnapshot(const Snapshot& snapshot);
  std::vector<Snapshot> ListSnapshots() const;
  absl::StatusOr<std::string> ReadPart(const SnapshotFile& file, uint32_t index) const;
  TrimResult Trim(uint32_t snapshots_kept);
  // `now`: of any clock that does not go back.
  void PutReport(const std::string& replica, const std::string& details, absl::Duration now);
  std::vector<ReplicaReport> ListReports(absl::Duration now) const;

 private:
  bool Has(const LogPosition& position) const;
  bool Whole(const SnapshotFile& file) const;

  LogState state_;
  std::map<uint64_t, LogRow> rows_;
  std::map<std::string, std::map<uint32_t, std::string>> files_;  // parts by hash
  std::map<uint64_t, Snapshot> snapshots_;                        // by sequence
  struct Report {
    std::string details;
    absl::Duration put;
  };
  std::map<std::string, Report> reports_;  // by replica
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_MEMORY_MEM_LOG_STATE_H_
