// RocksRig: production's embedded store in a folder of its own, with one client that makes one
// commit after the other.

#ifndef TESTS_BUDGET_ROCKS_RIG_H_
#define TESTS_BUDGET_ROCKS_RIG_H_

#include <memory>
#include <string>
#include <vector>

#include "common/kv/client/kv_client.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"

namespace escapement::budget {

class RocksRig {
 public:
  RocksRig();
  ~RocksRig();
  RocksRig(const RocksRig&) = delete;
  RocksRig& operator=(const RocksRig&) = delete;

  // Waits until the commit is durable. Every group must apply.
  void Commit(std::vector<kv::Group> groups);

  SystemRuntime& runtime() { return runtime_; }
  kv::RocksKvStore& store() { return *store_; }

 private:
  const std::string folder_;
  SystemRuntime runtime_;
  std::unique_ptr<kv::RocksKvStore> store_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
};

}  // namespace escapement::budget

#endif  // TESTS_BUDGET_ROCKS_RIG_H_
