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

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/log/shared_log.h"

namespace escapement::kv {

std::string EncodeSnapshot(const Snapshot& snapshot);

// DATA_LOSS if the bytes are damaged, FAILED_PRECONDITION for another version's.
absl::StatusOr<Snapshot> DecodeSnapshot(const LogPosition& position, absl::string_view bytes);

// The checksum that is stored with a part.
uint64_t SnapshotPartCheck(const SnapshotPart& part);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_SNAPSHOT_CODEC_H_
