// The answer to a request that cannot be parsed: INVALID_ARGUMENT with an ErrorInfo.
//
// A request cannot be parsed if its bytes are not a message of the expected type, or if a string is
// not UTF-8.

#ifndef COMMON_RPC_UNREADABLE_MESSAGE_H_
#define COMMON_RPC_UNREADABLE_MESSAGE_H_

#include "absl/status/status.h"

namespace escapement {

// INVALID_ARGUMENT, reason UNREADABLE_MESSAGE.
absl::Status UnreadableMessage();

}  // namespace escapement

#endif  // COMMON_RPC_UNREADABLE_MESSAGE_H_
