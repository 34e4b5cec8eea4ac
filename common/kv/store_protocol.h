// The protocol between the store and the other services, as a number. It enforces the order of an
// upgrade: the store first.
//
// The leader tells its number in each answer of its clock. Until the leader speaks at least the
// number of a newer client's program, that client sends it only AskClock, GetStatus and HandOver
// (wire/grpc_kv_store.h). A client of an older program works with every newer store.
//
// Pure.

#ifndef COMMON_KV_STORE_PROTOCOL_H_
#define COMMON_KV_STORE_PROTOCOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace escapement::kv {

// Raise it when a service begins to need something of the store that the store's last release does
// not do: a call, a field, a kind of condition or mutation, a column family, or another meaning of
// one of them. Say here what it is.
//
// 0: programs before this number.
// 1: the answer about the store's clock has this number.
inline constexpr uint32_t kStoreProtocol = 1;

// The answer of the client to a call that it does not send. UNAVAILABLE, since the store can be
// upgraded: nothing of the call has happened.
inline absl::Status LeaderTooOld(uint32_t speaks, uint32_t needs) {
  return absl::UnavailableError(absl::StrCat("the store's leader speaks ", speaks,
                                             ", this program needs ", needs,
                                             ": upgrade the store first"));
}

}  // namespace escapement::kv

#endif  // COMMON_KV_STORE_PROTOCOL_H_
