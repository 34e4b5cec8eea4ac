#include "services/store/store_server.h"

#include <utility>

#include "common/kv/engine/clock_hold.h"
#include "common/kv/wire/store_service_grpc.h"
#include "services/store/store_grpc.h"

namespace escapement::store {

struct StoreServer::Parts {
  explicit Parts(std::unique_ptr<kv::RocksKvStore> opened) : store(std::move(opened)) {}

  std::unique_ptr<kv::RocksKvStore> store;
};

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Open(const Options& options,
                                                               Clock& clock) {
  kv::RocksKvStore::Options rocks;
  rocks.data_dir = options.data_dir;
  rocks.accept_loss = options.accept_loss;
  rocks.lease_ttl = options.lease_ttl;
  rocks.layout = {options.partitions, options.queue_shards, options.policy_shards};
  rocks.free_bytes_min = options.free_bytes_min;
  rocks.block_cache_bytes = options.block_cache_bytes;
  auto store = kv::RocksKvStore::Open(std::move(rocks), clock);
  if (!store.ok()) return store.status();
  return std::unique_ptr<StoreServer>(new StoreServer(std::make_unique<Parts>(*std::move(store))));
}

StoreServer::StoreServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StoreServer::~StoreServer() = default;

void StoreServer::AddRpcs(RpcTable& table) {
  AddStoreRpcs(*parts_->store, table);
  kv::AddStoreServiceRpcs(*parts_->store, table);
}

std::string StoreServer::NotReadyReason() const {
  const kv::RocksKvStore::Info info = parts_->store->info();
  return kv::NotReadyReason({info.clock_held_for, info.clock_disagreement});
}

kv::RocksKvStore& StoreServer::store() { return *parts_->store; }

}  // namespace escapement::store
