// The RPC of a store for the platform's own processes: any KvStore over gRPC (store.proto).
// common/kv/wire/grpc_kv_store.h is the client.
//
// Threads: gRPC's.

#ifndef SERVICES_STORE_SERVICE_STORE_GRPC_H_
#define SERVICES_STORE_SERVICE_STORE_GRPC_H_

#include <cstddef>
#include <cstdint>

#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"

namespace escapement {
class RpcTable;
}

namespace escapement::store {

// If more bytes than this wait for the client of a watch, the watch is too slow and lags.
inline constexpr size_t kWatchBacklogBytesMax = 64 << 20;

// Adds the RPC to `table`. Without `admin` its calls are refused. Both outlive the server. Only
// tests give another `protocol`: 0 is that of a store which does not know the number.
void AddStoreRpcs(kv::KvStore& store, RpcTable& table, kv::StoreAdmin* admin = nullptr,
                  uint32_t protocol = kv::kStoreProtocol);

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_STORE_GRPC_H_
