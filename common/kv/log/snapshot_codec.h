// The stored form of a snapshot: its files and details, with a checksum. The position is beside it.
//
// The form is stored and must stay readable. Numbers are big-endian.
//
//   version (1 byte: 1) | number of files (4) | { hash (32) | bytes (8) } … | details | XXH3-64 of
//   everything before (8)
//
// Threads: pure functions.

#ifndef COMMON_KV_LOG_SNAPSHOT_CODEC_H_
#define COMMON_KV_LOG_SNAPSHOT_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

std::string EncodeSnapshot(const Snapshot& snapshot);

// DATA_LOSS if the bytes are damaged, FAILED_PRECONDITION for another version's.
absl::StatusOr<Snapshot> DecodeSnapshot(const LogPosition& position, absl::string_view bytes);

// The checksum that is stored with a part.
uint64_t SnapshotPartCheck(const SnapshotPart& part);

// Checks the arguments of a SharedLog's methods, the same way for each implementation.
// INVALID_ARGUMENT says what is wrong.
//
// Threads: pure functions.

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

#endif  // COMMON_KV_LOG_SNAPSHOT_CODEC_H_
