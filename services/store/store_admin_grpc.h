// StoreAdminGrpc: what operators ask of the store, over gRPC (store.proto).
//
// Threads: gRPC's. `store` outlives it.

#ifndef SERVICES_STORE_STORE_ADMIN_GRPC_H_
#define SERVICES_STORE_STORE_ADMIN_GRPC_H_

#include <memory>

#include "common/kv/rocks_kv_store.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace escapement::store {

class StoreAdminGrpc {
 public:
  explicit StoreAdminGrpc(kv::RocksKvStore& store);
  ~StoreAdminGrpc();
  StoreAdminGrpc(const StoreAdminGrpc&) = delete;
  StoreAdminGrpc& operator=(const StoreAdminGrpc&) = delete;

  grpc::Service* service();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace escapement::store

#endif  // SERVICES_STORE_STORE_ADMIN_GRPC_H_
