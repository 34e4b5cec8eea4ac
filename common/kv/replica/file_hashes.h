// FileHashes: SHA-256 of files, each computed once. A file is known by its device, inode, size and
// time of change; RocksDB's table files never change, and a checkpoint shares them by hard links.
//
// Threads: one at a time. Blocks on IO.

#ifndef COMMON_KV_REPLICA_FILE_HASHES_H_
#define COMMON_KV_REPLICA_FILE_HASHES_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"

namespace escapement::kv {

class FileHashes {
 public:
  // INTERNAL if the file cannot be read.
  absl::StatusOr<std::string> HashOf(const std::string& path);

 private:
  using Id = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int64_t>;
  static constexpr size_t kKnownMax = 20'000;
  std::map<Id, std::string> known_;
};

// Computes it now.
absl::StatusOr<std::string> HashFile(const std::string& path);

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_FILE_HASHES_H_
