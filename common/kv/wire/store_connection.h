// StoreConnection is a KvStore that another process serves.
//
// kStoreProtocol is the protocol between the store and the other services, as a number. It enforces
// the order of an upgrade: the store first. The leader tells its number in each answer of its
// clock. Until the leader speaks at least the number of a newer client's program, that client sends
// it only AskClock, GetStatus and HandOver (grpc_kv_store.h). A client of an older program works
// with every newer store.
//
// StoreAdmin: what an operator may ask of a store, beside its clock. The store's process implements
// it (services/store), and so do the clients of the store (grpc_kv_store.h), for the master.
//
// Threads: any thread may call it; callbacks run on any thread.

#ifndef COMMON_KV_WIRE_STORE_CONNECTION_H_
#define COMMON_KV_WIRE_STORE_CONNECTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/kv/kv_store.h"
#include "escapement/v1/store_service.pb.h"

namespace escapement::kv {

// Raise it when a service begins to need something of the store that the store's last release does
// not do: a call, a field, a kind of condition or mutation, a column family, or another meaning of
// one of them. Say here what it is.
//
// 0: programs before this number.
// 1: the answer about the store's clock has this number.
inline constexpr uint32_t kStoreProtocol = 1;

// The end of LeaderTooOld's message. Errors that contain it keep these words, also in a master's
// answer to its clients.
inline constexpr char kUpgradeStoreFirst[] = "upgrade the store first";

// The answer of the client to a call that it does not send. UNAVAILABLE, since the store can be
// upgraded: nothing of the call has happened.
inline absl::Status LeaderTooOld(uint32_t speaks, uint32_t needs) {
  return absl::UnavailableError(absl::StrCat("the store's leader speaks ", speaks,
                                             ", this program needs ", needs, ": ",
                                             kUpgradeStoreFirst));
}

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
  // program needs (kStoreProtocol). Otherwise empty.
  virtual std::string TooOld() { return {}; }
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_STORE_CONNECTION_H_
