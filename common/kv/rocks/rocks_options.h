// The settings of RocksDB, each with its reason.

#ifndef COMMON_KV_ROCKS_ROCKS_OPTIONS_H_
#define COMMON_KV_ROCKS_ROCKS_OPTIONS_H_

#include <cstddef>
#include <memory>

#include "common/kv/column_family.h"
#include "rocksdb/cache.h"
#include "rocksdb/options.h"

namespace escapement::kv {

rocksdb::DBOptions DatabaseOptions(size_t write_buffers_bytes_max);

// `write_buffer_bytes` is for a family with much traffic; the others get an eighth of it.
rocksdb::ColumnFamilyOptions FamilyOptions(ColumnFamily cf, size_t write_buffer_bytes,
                                           const std::shared_ptr<rocksdb::Cache>& cache);

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_ROCKS_OPTIONS_H_
