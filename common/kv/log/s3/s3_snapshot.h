// Snapshots whose files are objects of S3: the names of the objects, and what the log keeps of a
// snapshot.
//
// Each upload of a file has a random number, and so a key of its own: `folder`/HASH-UPLOAD, both in
// hexadecimal digits. A key is never used again, so an object that may be deleted once may be
// deleted for ever.
//
// The log has a small file for each object, its mark. The mark's bytes are the object's address; it
// has one part. A snapshot has the marks of its objects as its files, and the details begin with
// the list of the real ones. The form is stored and must stay readable. Integers are big-endian:
//
//   kS3SnapshotTag | bytes(2) "s3://bucket/folder" | number of files(4) | { hash(32) bytes(8)
//   upload(8) } … | the snapshot's own details
//
// A file without bytes has no object and no mark.
//
// Pure.

#ifndef COMMON_KV_LOG_S3_S3_SNAPSHOT_H_
#define COMMON_KV_LOG_S3_S3_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/log/shared_log.h"
#include "common/s3/s3_address.h"

namespace escapement::kv {

// A program that does not know it takes the first byte for a later version of a store's details.
inline constexpr absl::string_view kS3SnapshotTag = "\002files in S3\001";

struct S3File {
  SnapshotFile file;
  uint64_t upload = 0;
};

struct S3Snapshot {
  std::string folder;  // "s3://bucket/folder"
  std::vector<S3File> files;
  LogPosition position;
  std::string details;
};

// The key's end, behind "folder/".
std::string S3ObjectName(absl::string_view hash, uint64_t upload);

// The mark of an object in "s3://bucket/folder", as a file of the log, with its only part.
SnapshotPart MarkOf(absl::string_view folder, absl::string_view object_name);

// As the log keeps it.
Snapshot EncodeS3Snapshot(const S3Snapshot& snapshot);
// Empty if the snapshot's files are in the log itself. DATA_LOSS if the list is malformed.
absl::StatusOr<std::optional<S3Snapshot>> DecodeS3Snapshot(const Snapshot& stored);

// The snapshot as its reader sees it.
Snapshot SnapshotOf(const S3Snapshot& snapshot);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_S3_S3_SNAPSHOT_H_
