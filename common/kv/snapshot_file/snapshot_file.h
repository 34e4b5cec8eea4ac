// A snapshot of a store as one file: the files of a RocksDB checkpoint, one behind the other. A
// backup is such a file.
//
//   SnapshotFileWriter writer(checkpoint);            SnapshotFileReader reader(folder);
//   for (auto chunk = writer.Next(); …)  ── chunks ──► reader.Take(chunk) …
//                                                     reader.Finish()
//
// The form is stored. Integers are big-endian:
//
//   "escapement snapshot\n"(20) version(4: 1)
//   { 1 bytes(2) name bytes(8) content } …
//   0 SHA-256 of everything before(32)
//
// Threads: one at a time. Blocks on IO.

#ifndef COMMON_KV_SNAPSHOT_FILE_SNAPSHOT_FILE_H_
#define COMMON_KV_SNAPSHOT_FILE_SNAPSHOT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/hash.h"

namespace escapement::kv {

class SnapshotFileWriter {
 public:
  static constexpr size_t kChunkBytesMax = 1 << 20;

  // `folder` has only files, which do not change. Text logs and locks are left out.
  explicit SnapshotFileWriter(std::string folder) : folder_(std::move(folder)) {}

  // The next bytes of the file; empty behind its end. INTERNAL if the folder cannot be read.
  absl::StatusOr<std::string> Next();

 private:
  absl::Status List();
  absl::Status Open(const std::string& name, std::string& chunk);

  const std::string folder_;
  bool begun_ = false;
  bool ended_ = false;
  std::vector<std::string> names_;  // those that remain, the next one last
  std::ifstream content_;
  uint64_t content_left_ = 0;
  Sha256 hash_;
};

class SnapshotFileReader {
 public:
  // `folder` is new and empty. With the name "" nothing is written: the file is only checked.
  explicit SnapshotFileReader(std::string folder) : folder_(std::move(folder)) {}

  // Takes the next bytes of the file, cut anywhere, and writes what it can. DATA_LOSS: this is no
  // snapshot, or it is damaged. FAILED_PRECONDITION: a newer program has made it. INTERNAL: the
  // folder cannot be written.
  absl::Status Take(absl::string_view bytes);
  // Behind the last bytes. DATA_LOSS if the end is missing or the checksum does not match.
  // Otherwise all files are durable.
  absl::Status Finish();

 private:
  absl::Status TakeHead();
  absl::Status TakeEntry();
  absl::Status Open(const std::string& name);
  absl::Status Close();
  // Counts `bytes` bytes of head_ into the checksum and removes them.
  void Consume(size_t bytes);

  const std::string folder_;
  std::string head_;  // bytes whose meaning is not complete
  bool begun_ = false;
  bool ended_ = false;
  std::string path_;  // the file that is being written
  std::ofstream content_;
  uint64_t content_left_ = 0;
  Sha256 hash_;
};

// Makes the content of a file or the names in a folder durable.
absl::Status SyncPath(const std::string& path);

}  // namespace escapement::kv

#endif  // COMMON_KV_SNAPSHOT_FILE_SNAPSHOT_FILE_H_
