// NotLeader: the answer of a store that does not lead, to every call.
//
// The wire carries a status as code and message only, so the leader's address is in the message, in
// a fixed form. A client that has several addresses goes on at that one.
//
// Pure.

#ifndef COMMON_KV_NOT_LEADER_H_
#define COMMON_KV_NOT_LEADER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace escapement::kv {

// UNAVAILABLE. `address` is where the leader serves; empty if no leader is known.
absl::Status NotLeader(absl::string_view address);

// The address in a status that NotLeader has made, also if context was added around its text. Empty
// if no leader is known. Nothing for every other status.
std::optional<std::string> LeaderAddressOf(const absl::Status& status);

}  // namespace escapement::kv

#endif  // COMMON_KV_NOT_LEADER_H_
