// RocksRig: production's embedded store in a folder of its own, with one client that makes one
// commit after the other.

#ifndef TESTS_BUDGET_ROCKS_RIG_H_
#define TESTS_BUDGET_ROCKS_RIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"
#include "common/storage/event_table.h"

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

// Events and schedules as the master writes them, for paths that begin with stored rows.

inline constexpr size_t kPayloadBytes = 500;
inline constexpr uint64_t kBatchEvents = 1000;

// Delivery to a gRPC consumer, with one attempt.
storage::v1::DeliveryRecord DeliveryTo(const std::string& uri);

// The rows of `events` events due at `due`, one group each, in batches of one commit. The very
// first group holds what all events share. `client_ids`: clients have chosen the events' ids.
std::vector<std::vector<kv::Group>> OneOffGroups(uint64_t events, absl::Time due,
                                                 uint32_t queue_shards, const std::string& uri,
                                                 bool client_ids);

// Adds the definition and the state of an enabled schedule in UTC, with a payload. Returns the
// definition.
storage::v1::DefinitionRecord AddSchedule(uint64_t number, const std::string& cron,
                                          kv::Group* group);

}  // namespace escapement::budget

#endif  // TESTS_BUDGET_ROCKS_RIG_H_
