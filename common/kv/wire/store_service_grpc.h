// StoreServiceGrpc: StoreService of the public API (escapement/v1/store_service.proto) over any
// KvStore. The master serves it with its store client, and the store serves it itself.
//
// Threads: gRPC's. `store` must outlive it.

#ifndef COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_
#define COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_

#include <memory>

#include "common/kv/kv_store.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace escapement::kv {

class StoreServiceGrpc {
 public:
  explicit StoreServiceGrpc(KvStore& store);
  ~StoreServiceGrpc();
  StoreServiceGrpc(const StoreServiceGrpc&) = delete;
  StoreServiceGrpc& operator=(const StoreServiceGrpc&) = delete;

  grpc::Service* service();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_
