// The database of a store, as the store's options want it.

#ifndef COMMON_KV_ROCKS_STORE_DATABASE_H_
#define COMMON_KV_ROCKS_STORE_DATABASE_H_

#include "absl/status/status.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_kv_store.h"

namespace escapement::kv {

RocksDatabase::Options StoreDatabaseOptions(const RocksKvStore::Options& options);

// The default of RocksKvStore::Options::on_fatal.
[[noreturn]] void EndStoreProcess(const absl::Status& status);

}  // namespace escapement::kv

#endif  // COMMON_KV_ROCKS_STORE_DATABASE_H_
