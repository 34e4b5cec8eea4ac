// CallDispatcher: takes every call of a gRPC server, asks the gate, and starts the method. A
// refused call is answered before its request is read.
//
// A door of this process (REST) calls through GrpcServer::InProcessChannel for its client. It names
// the client in the metadata, with a secret of this process, so nobody else can.
//
// Threads: gRPC's.

#ifndef COMMON_RPC_CALL_DISPATCHER_GRPC_H_
#define COMMON_RPC_CALL_DISPATCHER_GRPC_H_

#include <grpcpp/generic/async_generic_service.h>

#include <string>
#include <vector>

#include "common/rpc/call_metrics.h"
#include "common/rpc/rpc_table_grpc.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace escapement {

class CallDispatcher final : public grpc::CallbackGenericService {
 public:
  // All outlive the server. `metrics` may be null.
  CallDispatcher(const RpcTable& table, CallGate& gate, CallMetrics* metrics)
      : table_(table), gate_(gate), metrics_(metrics) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const RpcTable& table_;
  CallGate& gate_;
  CallMetrics* const metrics_;
};

// For a door of this process: names the client for which it makes a call through the in-process
// channel. `client_names` are those of its verified certificate.
void NameClient(const std::string& source, const std::vector<std::string>& client_names,
                grpc::ClientContext& context);

}  // namespace escapement

#endif  // COMMON_RPC_CALL_DISPATCHER_GRPC_H_
