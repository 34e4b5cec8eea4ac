// The memtable of RocksKvStore: a skip list with one writer.
//
// Why not RocksDB's own: Debian's library is built with its assertions, which compare keys twice
// more for each step of a search, and counts each comparison in thread-locals; together that was
// more than half of what a commit cost (docs/adr/0008).
//
// Threads: as RocksDB with allow_concurrent_memtable_write off: one writer at a time, any readers
// beside it, without locks. Keys are in the order of the bytewise comparator, without timestamps.

#ifndef COMMON_KV_ROCKS_ROCKS_MEMTABLE_H_
#define COMMON_KV_ROCKS_ROCKS_MEMTABLE_H_

#include <memory>

#include "rocksdb/memtablerep.h"

namespace escapement::kv {

std::shared_ptr<rocksdb::MemTableRepFactory> NewMemtableFactory();

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_MEMTABLE_H_
