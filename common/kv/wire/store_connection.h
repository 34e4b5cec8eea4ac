// StoreConnection is a KvStore that another process serves.
//
// StoreAdmin: what an operator may ask of a store, beside its clock. The store's process implements
// it (services/store), and so do the clients of the store (grpc_kv_store.h), for the master.
//
// Threads: any thread may call it; callbacks run on any thread.

#ifndef COMMON_KV_WIRE_STORE_CONNECTION_H_
#define COMMON_KV_WIRE_STORE_CONNECTION_H_

#include <string>

#include "common/kv/kv_store.h"
#include "escapement/v1/store_service.pb.h"

namespace escapement::kv {

class StoreAdmin {
 public:
  virtual ~StoreAdmin() = default;

  // As GetStatus of escapement.v1.StoreService. UNAVAILABLE: the store, or its log, does not
  // answer.
  virtual void GetStatus(KvStore::Callback<v1::StoreStatus> done) = 0;
  // As HandOver of escapement.v1.StoreService. NotLeader (common/kv/not_leader.h) if this process
  // does not lead. FAILED_PRECONDITION: the store is not replicated, or nobody is ready to lead.
  virtual void HandOver(KvStore::Callback<v1::HandOverResponse> done) = 0;
};

// StoreConnection: a KvStore that another process serves, with its part for operators, over a
// connection that the client can end.
//
// Threads: as KvStore. Destroying it ends the connection and waits for its callbacks.

class StoreConnection : public KvStore, public StoreAdmin {
 public:
  // Ends the present connection, if there is one, and does not wait: its open calls fail with
  // UNAVAILABLE and its watches end. The next call connects again.
  virtual void Disconnect() = 0;

  // Why nothing is sent there: the process led when it was last asked, and it speaks less than this
  // program needs (common/kv/store_protocol.h). Otherwise empty.
  virtual std::string TooOld() { return {}; }
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_STORE_CONNECTION_H_
