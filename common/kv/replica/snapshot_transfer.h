// Snapshots of a replicated store: what one says of itself (SnapshotDetails), and its way between a
// folder and the log's engine (UploadSnapshot, DownloadSnapshot).

#ifndef COMMON_KV_REPLICA_SNAPSHOT_TRANSFER_H_
#define COMMON_KV_REPLICA_SNAPSHOT_TRANSFER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/log/blocking_log.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/replica/snapshot_keeper.h"

namespace escapement::kv {

// SnapshotDetails: what a snapshot says of itself beside its files (Snapshot::details).
//
// The form is stored and must stay readable. Integers are big-endian:
//
//   version(1: 1) place(33, LogPlace) store time in µs(8) { bytes(2) name file(4) } …
//
// `file` is the index in Snapshot::files. An empty file has no bytes to keep; its index is
// kEmptyFile.
//
// Pure.
struct SnapshotDetails {
  static constexpr uint32_t kEmptyFile = 0xffffffff;
  struct NamedFile {
    std::string name;  // without a folder
    uint32_t file = 0;

    friend bool operator==(const NamedFile&, const NamedFile&) = default;
  };
  LogPlace place;
  absl::Time store_time;  // the store time of its last batch
  std::vector<NamedFile> files;
};

std::string EncodeSnapshotDetails(const SnapshotDetails& details);
// DATA_LOSS if the bytes are malformed or a name is not that of a file in a folder.
// FAILED_PRECONDITION if a newer program has written them.
absl::StatusOr<SnapshotDetails> DecodeSnapshotDetails(absl::string_view bytes);

// The way of a snapshot between a folder and the log's engine.
//
// Files are known by their hash. So an upload sends only the files that the engine does not have,
// and a download checks every file from end to end.
//
// Threads: one at a time. Blocks on IO and on the log.

struct UploadResult {
  uint64_t bytes = 0;       // the size of the snapshot
  uint64_t bytes_sent = 0;  // the size of the files that the engine did not have
};

// Uploads all files of `folder`, which is a checkpoint with this place and store time, and
// publishes them as a snapshot. Errors of the log; ABORTED: try again with a new checkpoint.
absl::StatusOr<UploadResult> UploadSnapshot(BlockingLog& log, const std::string& folder,
                                            const LogPlace& place, absl::Time store_time,
                                            FileHashes& hashes);

// Fills `folder`, which is new and empty, with the snapshot's files, and checks them. DATA_LOSS: a
// file is damaged. NOT_FOUND: the snapshot has been trimmed.
absl::Status DownloadSnapshot(BlockingLog& log, const Snapshot& snapshot,
                              const std::string& folder);

// Removes all but the two newest snapshots, and the rows before them. While there is only one
// snapshot it removes nothing, because the rows are needed if that snapshot is damaged.
absl::Status TrimLog(BlockingLog& log);

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_SNAPSHOT_TRANSFER_H_
