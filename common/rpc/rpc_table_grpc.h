// RpcTable: the RPCs that a process serves. CallDispatcher: takes every call and starts its method.
// AddReflection: gRPC server reflection.

#ifndef COMMON_RPC_RPC_TABLE_GRPC_H_
#define COMMON_RPC_RPC_TABLE_GRPC_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/done.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/method_access.h"
#include "common/rpc/unary_rpc_grpc.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace escapement {

// RpcTable: the RPCs that a process serves. A GrpcServer dispatches every call through it:
//
//   name → CallGate::Admit → read the request → CallGate::CheckRequest → the method → answer
//
// So a method is served only if its proto says who may call it, and it cannot be reached without
// the gate. A refused call is answered before its request is read.
//
//   table.AddUnary(api, &ScheduleApi::GetSchedule);  // ScheduleService.GetSchedule, by its request
//
// Threads: add methods from one thread, before the server starts. The methods run on gRPC's
// threads.
class RpcTable {
 public:
  // Starts one call. The reactor belongs to itself (OnDone).
  using Start = std::function<grpc::ServerGenericBidiReactor*(AdmittedCall call)>;

  // Serves the unary method whose request has this type. `method` is `void(Request, answer)`, where
  // the answer is a UnaryAnswer<Response>. Fails a CHECK if the request is not that of exactly one
  // unary method of its file, or the method has no role.
  template <typename Request, typename Response, typename Method>
  void AddUnary(Method method) {
    Add(UnaryMethodOf(*Request::descriptor()), false,
        [method = std::move(method)](AdmittedCall call) {
          return UnaryRpc<Request, Response, Method>::Start(std::move(call), method);
        });
  }

  // A method of an API. `api` outlives the server.
  template <typename Api, typename Request, typename Response>
  void AddUnary(Api& api, void (Api::*method)(Request, Done<Response>)) {
    AddUnary<Request, Response>([&api, method](Request request, UnaryAnswer<Response> answer) {
      std::shared_ptr<const Caller> caller = answer.caller();
      (api.*method)(std::move(request), Done<Response>(std::move(answer), std::move(caller)));
    });
  }

  // A stream of messages. `name`: package, service and method, with dots. A stream must pass each
  // request to AdmittedCall::CheckRequest.
  void AddStream(absl::string_view name, Start start) { Add(name, true, std::move(start)); }

  // A stream that anybody may call, without credentials.
  void AddOpenStream(absl::string_view name, Start start);

  // Full names of the services, sorted.
  std::vector<std::string> ServiceNames() const;

  struct Entry {
    MethodAccess access;
    bool open = false;  // anybody may call it
    bool stream = false;
    Start start;
  };
  // `path` as on the wire: "/escapement.v1.ScheduleService/GetSchedule". Null: no such method.
  const Entry* Find(absl::string_view path) const;

 private:
  // The full name of the one unary method with this request.
  static std::string UnaryMethodOf(const google::protobuf::Descriptor& request);
  void Add(absl::string_view name, bool stream, Start start);

  absl::flat_hash_map<std::string, Entry> entries_;
  std::vector<std::string> services_;
};

// gRPC server reflection (grpc.reflection.v1alpha): clients such as grpcurl ask for the services of
// a server and for their protos. Anybody may ask: the protos are public.
//
// Adds the method to `table` and answers from the protos that are linked. The services that it
// lists are those of `table` when it is asked; `table` outlives the server.
void AddReflection(RpcTable& table);

// CallDispatcher: takes every call of a gRPC server, asks the gate, and starts the method. A
// refused call is answered before its request is read.
//
// A door of this process (REST) calls through GrpcServer::InProcessChannel for its client. It names
// the client in the metadata, with a secret of this process, so nobody else can.
//
// Threads: gRPC's.
class CallDispatcher final : public grpc::CallbackGenericService {
 public:
  // All outlive the server. `metrics` may be null, and `tls`: then the port has no TLS.
  CallDispatcher(const RpcTable& table, CallGate& gate, CallMetrics* metrics, TlsFiles* tls)
      : table_(table), gate_(gate), metrics_(metrics), tls_(tls) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  const RpcTable& table_;
  CallGate& gate_;
  CallMetrics* const metrics_;
  TlsFiles* const tls_;
};

// For a door of this process: names the client for which it makes a call through the in-process
// channel. `client_names` are those of its verified certificate.
void NameClient(const std::string& source, const std::vector<std::string>& client_names,
                grpc::ClientContext& context);

}  // namespace escapement

#endif  // COMMON_RPC_RPC_TABLE_GRPC_H_
