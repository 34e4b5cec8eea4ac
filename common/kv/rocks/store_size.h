// StoreSize: how much a store's database holds, for metrics.

#ifndef COMMON_KV_ROCKS_STORE_SIZE_H_
#define COMMON_KV_ROCKS_STORE_SIZE_H_

#include <array>
#include <cstdint>

#include "common/kv/column_family.h"

namespace escapement::kv {

struct StoreSize {
  // About how many rows each family has. RocksDB counts writes less deletions, so the count is
  // exact only for a family whose rows are written once.
  std::array<uint64_t, kColumnFamilyCount> rows{};
  uint64_t live_bytes = 0;   // table files and writes in memory
  bool write_stall = false;  // RocksDB stops or slows writes, because its compaction is behind
};

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_STORE_SIZE_H_
