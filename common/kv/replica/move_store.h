// Moves a store from its data folder into a shared log, and back. No other process may use the
// store at that time.
//
// Threads: one at a time. Blocks on IO and on the log, for as long as the log does not answer.

#ifndef COMMON_KV_REPLICA_MOVE_STORE_H_
#define COMMON_KV_REPLICA_MOVE_STORE_H_

#include "absl/status/status.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// Begins a new log with the store in `options.data_dir`, which is not replicated. Sessions, first
// answers and store time go with it, so its clients go on as after a restart. The former database
// stays in data_dir/kMovedFolder. After an error, call it again. FAILED_PRECONDITION: the data
// folder has no such store, or the log has another one. ABORTED: a replica leads already; stop it.
absl::Status MoveStoreIntoLog(RocksKvStore::Options options, Runtime& runtime, SharedLog& log);

// Makes a store in `options.data_dir`, which has none, of all that the log has. The log's last row
// then says that its store has moved out, so no replica leads any more. After an error, call it
// again. FAILED_PRECONDITION: there is no such log, a replica still leads, or the folder has a
// store.
absl::Status MoveStoreOutOfLog(RocksKvStore::Options options, Runtime& runtime, SharedLog& log);

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_MOVE_STORE_H_
