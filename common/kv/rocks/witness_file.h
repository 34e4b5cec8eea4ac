// WitnessFile: the highest commit that was acknowledged, kept outside the database.
//
// RocksDB recovers the longest prefix of its log that it can read; if a part was lost it cannot
// always tell. The witness can: a database that recovers less than the witness names has lost
// acknowledged commits.
//
// Format: two slots of 512 bytes, written in turn, of which the valid one with the higher count is
// in force. Slot: magic(8) count(8) incarnation(8) seq(8) XXH3 of those(8), big-endian, then zeros.
// A torn write spoils one slot only.
//
// Threads: one at a time. Blocks on IO.

#ifndef COMMON_KV_ROCKS_WITNESS_FILE_H_
#define COMMON_KV_ROCKS_WITNESS_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"

namespace rocksdb {
class FileSystem;
class FSRandomRWFile;
}  // namespace rocksdb

namespace escapement::kv {

struct Witnessed {
  uint64_t incarnation = 0;
  CommitSeq seq = 0;

  friend bool operator==(const Witnessed&, const Witnessed&) = default;
};

class WitnessFile {
 public:
  // Makes the file if it is absent; that its folder holds it is durable once the folder is synced.
  // `file_system` outlives the file.
  static absl::StatusOr<std::unique_ptr<WitnessFile>> Open(rocksdb::FileSystem& file_system,
                                                           const std::string& path);
  ~WitnessFile();
  WitnessFile(const WitnessFile&) = delete;
  WitnessFile& operator=(const WitnessFile&) = delete;

  // What the file held when it was opened; nothing if it was new.
  const std::optional<Witnessed>& found() const { return found_; }

  // Durable when it returns OK. After an error the next one takes the place of what that has left,
  // never of the one that is in force.
  absl::Status Write(const Witnessed& witnessed);

 private:
  explicit WitnessFile(std::unique_ptr<rocksdb::FSRandomRWFile> file);
  absl::Status ReadSlots();

  const std::unique_ptr<rocksdb::FSRandomRWFile> file_;
  uint64_t count_ = 0;
  std::optional<Witnessed> found_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_WITNESS_FILE_H_
