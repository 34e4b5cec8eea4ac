// The memtable of RocksKvStore: a skip list with one writer.
//
// It replaces RocksDB's own because Debian's library is built with assertions. These compare keys
// twice more for each step of a search, and count each comparison in thread-locals. Together that
// was more than half of a commit's cost (docs/adr/0008).
//
// Threads: as RocksDB with allow_concurrent_memtable_write off: one writer at a time, and any
// readers beside it, without locks. Keys are ordered by the bytewise comparator, without
// timestamps.

#ifndef COMMON_KV_ROCKS_ROCKS_MEMTABLE_H_
#define COMMON_KV_ROCKS_ROCKS_MEMTABLE_H_

#include <memory>

#include "rocksdb/memtablerep.h"

namespace escapement::kv {

std::shared_ptr<rocksdb::MemTableRepFactory> NewMemtableFactory();

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_MEMTABLE_H_
