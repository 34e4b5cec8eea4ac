// StoreService of the public API (escapement/v1/store_service.proto) over any KvStore. The master
// serves it with its store client, and the store serves it itself.
//
// Threads: gRPC's.

#ifndef COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_
#define COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_

#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"

namespace escapement {
class RpcTable;
}

namespace escapement::kv {

// Adds the RPCs to `table`; without `admin` only those of the clock. Both outlive the server.
void AddStoreServiceRpcs(KvStore& store, StoreAdmin* admin, RpcTable& table);

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_
