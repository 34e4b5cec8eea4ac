// StoreGrpc: any KvStore over gRPC (store.proto). The other side of common/kv/wire/grpc_kv_store.h.
//
// Threads: gRPC's. `store` outlives it; the gRPC server must have been shut down before it is
// destroyed.

#ifndef SERVICES_STORE_STORE_GRPC_H_
#define SERVICES_STORE_STORE_GRPC_H_

#include <memory>

#include "common/kv/kv_store.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace escapement::store {

class StoreGrpc {
 public:
  // A watch whose client does not keep up with this much waiting for it lags.
  static constexpr size_t kBacklogBytesMax = 64 << 20;

  explicit StoreGrpc(kv::KvStore& store);
  ~StoreGrpc();
  StoreGrpc(const StoreGrpc&) = delete;
  StoreGrpc& operator=(const StoreGrpc&) = delete;

  grpc::Service* service();

 private:
  class Connection;
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace escapement::store

#endif  // SERVICES_STORE_STORE_GRPC_H_
