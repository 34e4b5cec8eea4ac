// What a data folder holds when no store serves it any more.

#ifndef TESTS_E2E_CHAOS_END_STATE_H_
#define TESTS_E2E_CHAOS_END_STATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"

namespace escapement::chaos {

// Reads one family of a store that serves, in pages.
absl::Status ReadFamily(kv::KvStore& store, kv::ColumnFamily cf, kv::MemDisk* disk);

struct EndState {
  kv::MemDisk disk;
  kv::CommitSeq seq = 0;  // of the last commit that the store's last life left durable
};

// Opens the folder as a store does.
absl::StatusOr<EndState> ReadEndState(const std::string& data_dir);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_END_STATE_H_
