// Reads the content of a data folder after its last store has ended.

#ifndef TESTS_E2E_CHAOS_BASE_END_STATE_H_
#define TESTS_E2E_CHAOS_BASE_END_STATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"

namespace escapement::chaos {

// Reads one column family from a running store, in pages.
absl::Status ReadFamily(kv::KvStore& store, kv::ColumnFamily cf, kv::MemDisk* disk);

struct EndState {
  kv::MemDisk disk;
  kv::CommitSeq seq = 0;  // the last commit that the store's last life left durable
};

// Opens the folder like a store.
absl::StatusOr<EndState> ReadEndState(const std::string& data_dir);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_BASE_END_STATE_H_
