// StoreConnection: a KvStore that another process serves, with its part for operators, over a
// connection that the client can end.
//
// Threads: as KvStore. Destroying it ends the connection and waits for its callbacks.

#ifndef COMMON_KV_WIRE_STORE_CONNECTION_H_
#define COMMON_KV_WIRE_STORE_CONNECTION_H_

#include "common/kv/kv_store.h"
#include "common/kv/wire/store_admin.h"

namespace escapement::kv {

class StoreConnection : public KvStore, public StoreAdmin {
 public:
  // Ends the present connection, if there is one, and does not wait: its open calls fail with
  // UNAVAILABLE and its watches end. The next call connects again.
  virtual void Disconnect() = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_STORE_CONNECTION_H_
