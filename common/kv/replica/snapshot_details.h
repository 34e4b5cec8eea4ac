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

#ifndef COMMON_KV_REPLICA_SNAPSHOT_DETAILS_H_
#define COMMON_KV_REPLICA_SNAPSHOT_DETAILS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/replica/log_place.h"

namespace escapement::kv {

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

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_SNAPSHOT_DETAILS_H_
