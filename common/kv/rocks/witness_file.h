// WitnessFile: the highest acknowledged commit, kept outside the database.
//
// RocksDB recovers the longest readable prefix of its log, and cannot always tell that a part was
// lost. The witness can: a database that recovers less than the witness says has lost acknowledged
// commits.
//
// Format: two slots of 512 bytes, written in turn. The valid slot with the higher count is in
// force. A slot has magic(8) count(8) incarnation(8) seq(8) XXH3 of those(8), big-endian, then
// zeros. A torn write spoils one slot only.
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

class RoomWait;

struct Witnessed {
  uint64_t incarnation = 0;
  CommitSeq seq = 0;

  friend bool operator==(const Witnessed&, const Witnessed&) = default;
};

class WitnessFile {
 public:
  // Creates the file if it is absent. Its name is durable once the caller has synced the folder.
  // `file_system` must outlive the file. While the disk is full, writes wait in `room`.
  static absl::StatusOr<std::unique_ptr<WitnessFile>> Open(rocksdb::FileSystem& file_system,
                                                           const std::string& path,
                                                           std::shared_ptr<RoomWait> room);
  ~WitnessFile();
  WitnessFile(const WitnessFile&) = delete;
  WitnessFile& operator=(const WitnessFile&) = delete;

  // The content of the file when it was opened; nothing if the file was new.
  const std::optional<Witnessed>& found() const { return found_; }

  // Durable when it returns OK. After an error the next write overwrites the failed slot, never the
  // one in force.
  absl::Status Write(const Witnessed& witnessed);

 private:
  WitnessFile(std::unique_ptr<rocksdb::FSRandomRWFile> file, std::string path,
              std::shared_ptr<RoomWait> room);
  absl::Status ReadSlots();

  const std::unique_ptr<rocksdb::FSRandomRWFile> file_;
  const std::string path_;
  const std::shared_ptr<RoomWait> room_;
  uint64_t count_ = 0;
  std::optional<Witnessed> found_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_WITNESS_FILE_H_
