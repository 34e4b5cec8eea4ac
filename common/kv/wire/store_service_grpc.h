// StoreService of the public API (escapement/v1/store_service.proto) over any KvStore. The master
// serves it with its store client, and the store serves it itself.
//
// Threads: gRPC's.

#ifndef COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_
#define COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_

#include "common/kv/kv_store.h"

namespace escapement {
class RpcTable;
}

namespace escapement::kv {

// Adds the RPCs to `table`. `store` outlives the server.
void AddStoreServiceRpcs(KvStore& store, RpcTable& table);

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_STORE_SERVICE_GRPC_H_
