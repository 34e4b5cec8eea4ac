// StoreGrpc: any KvStore over gRPC (store.proto). common/kv/wire/grpc_kv_store.h is the client.
//
// Threads: gRPC's. `store` must outlive it. Shut the gRPC server down before destroying it.

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
  // If more bytes than this wait for the client of a watch, the watch is too slow and lags.
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
