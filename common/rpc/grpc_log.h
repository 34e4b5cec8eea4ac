// RouteGrpcLog: what gRPC logs becomes lines of our log, at most ten a second.
//
// gRPC logs a line for each failed handshake, so any client can cause as many as it likes.

#ifndef COMMON_RPC_GRPC_LOG_H_
#define COMMON_RPC_GRPC_LOG_H_

namespace escapement {

// For the rest of the process. Call it before the first use of gRPC.
void RouteGrpcLog();

}  // namespace escapement

#endif  // COMMON_RPC_GRPC_LOG_H_
