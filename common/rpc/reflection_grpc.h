// gRPC server reflection (grpc.reflection.v1alpha): clients such as grpcurl ask for the services of
// a server and for their protos. Anybody may ask: the protos are public.

#ifndef COMMON_RPC_REFLECTION_GRPC_H_
#define COMMON_RPC_REFLECTION_GRPC_H_

#include "common/rpc/rpc_table_grpc.h"

namespace escapement {

// Adds the method to `table` and answers from the protos that are linked. The services that it
// lists are those of `table` when it is asked; `table` outlives the server.
void AddReflection(RpcTable& table);

}  // namespace escapement

#endif  // COMMON_RPC_REFLECTION_GRPC_H_
