// Checks the arguments of a SharedLog's methods, the same way for each implementation.
// INVALID_ARGUMENT says what is wrong.
//
// Threads: pure functions.

#ifndef COMMON_KV_LOG_LOG_VALIDATION_H_
#define COMMON_KV_LOG_LOG_VALIDATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

absl::Status ValidateLead(const LeadRequest& request);
// Sequences and epochs only: a wrong chain is refused by every later reader.
absl::Status ValidateAppend(const AppendRequest& request);
absl::Status ValidateRead(const ReadRequest& request);
absl::Status ValidateFiles(const std::vector<SnapshotFile>& files);
absl::Status ValidatePart(const SnapshotPart& part);
absl::Status ValidateSnapshot(const Snapshot& snapshot);
absl::Status ValidateTrim(uint32_t snapshots_kept);
absl::Status ValidateReport(const std::string& replica, const std::string& details);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_LOG_VALIDATION_H_
