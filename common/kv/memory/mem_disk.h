// MemDisk: the state of a store in memory.
//
// Threads: one at a time.

#ifndef COMMON_KV_MEMORY_MEM_DISK_H_
#define COMMON_KV_MEMORY_MEM_DISK_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"

namespace escapement::kv {

// The synced state, including the store's own keys. Only the store touches it, on its executor.
struct MemDisk {
  using Family = absl::btree_map<std::string, std::string>;
  std::array<Family, kColumnFamilyCount> families;
  uint64_t starts = 0;  // how often the store has started
};

// Reads the disk.
class DiskState final : public BaseState {
 public:
  explicit DiskState(MemDisk& disk) : disk_(disk) {}

  bool Get(ColumnFamily cf, absl::string_view key, std::string& value) override;
  void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
               Visitor visit) override;

 private:
  MemDisk& disk_;
};

// Writes to the disk at once.
class DiskSink final : public WriteSink {
 public:
  explicit DiskSink(MemDisk& disk) : disk_(disk) {}

  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override;
  void Delete(ColumnFamily cf, absl::string_view key) override;
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override;

 private:
  MemDisk& disk_;
};

// The entries of a valid request. The caller adds sequence and store time.
ScanResult ScanDisk(const MemDisk& disk, const ScanRequest& request);

}  // namespace escapement::kv

#endif  // COMMON_KV_MEMORY_MEM_DISK_H_
