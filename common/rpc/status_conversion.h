// Converts absl::Status to google.rpc.Status, and to and from grpc::Status, for all services.
//
// The payloads of an absl::Status (common/status/errors.h) become the details of a
// google.rpc.Status in the "grpc-status-details-bin" trailer, as AIP-193 requires. They come back
// as payloads.
//
// Every error that leaves a process has a google.rpc.ErrorInfo, and a message that is an ErrorText.
// If an absl::Status was made without an ErrorInfo, it gets one with the name of its code as
// reason.
//
// Threads: pure functions.

#ifndef COMMON_RPC_STATUS_CONVERSION_H_
#define COMMON_RPC_STATUS_CONVERSION_H_

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace escapement {

// For an error that is a part of an answer.
google::rpc::Status ToRpcStatus(const absl::Status& status);

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// The answer to a request that cannot be parsed: INVALID_ARGUMENT with an ErrorInfo.
//
// A request cannot be parsed if its bytes are not a message of the expected type, or if a string is
// not UTF-8.

// INVALID_ARGUMENT, reason UNREADABLE_MESSAGE.
absl::Status UnreadableMessage();

}  // namespace escapement

#endif  // COMMON_RPC_STATUS_CONVERSION_H_
