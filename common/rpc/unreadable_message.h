// The answer to a request that cannot be parsed: INVALID_ARGUMENT with an ErrorInfo.
//
// A request cannot be parsed if its bytes are not a message of the expected type, or if a string is
// not UTF-8. Without this, gRPC answers a unary call with UNIMPLEMENTED and no details, as if the
// server did not know the method.

#ifndef COMMON_RPC_UNREADABLE_MESSAGE_H_
#define COMMON_RPC_UNREADABLE_MESSAGE_H_

#include <memory>

#include "absl/status/status.h"

namespace grpc::experimental {
class ServerInterceptorFactoryInterface;
}  // namespace grpc::experimental

namespace escapement {

// INVALID_ARGUMENT, reason UNREADABLE_MESSAGE.
absl::Status UnreadableMessage();

// Makes a server answer unreadable unary requests with UnreadableMessage. Streams are left alone,
// so that they do not pay for it; their reactors use ReadMessage (stream_message_grpc.h).
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewUnreadableRequestInterceptors();

}  // namespace escapement

#endif  // COMMON_RPC_UNREADABLE_MESSAGE_H_
