#include "common/rpc/grpc_server.h"

#include <grpc/grpc.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/call_dispatcher_grpc.h"
#include "common/rpc/host_port.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/status/return_if_error.h"
#include "common/tls/credentials_grpc.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"

namespace escapement {
namespace {

// The client's keepalive (channel.cc) pings every 10 s. A client that pings more often than this
// gets a GOAWAY.
constexpr int kMinPingIntervalMillis = 5'000;

}  // namespace

struct GrpcServer::State {
  State(RpcTable& table, CallGate& gate, CallMetrics* metrics) : dispatcher(table, gate, metrics) {}

  CallDispatcher dispatcher;
  std::shared_ptr<grpc::ServerCredentials> credentials;  // outlive the server
  std::unique_ptr<grpc::Server> server;
  std::string address;
  int port = 0;
};

GrpcServer::GrpcServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() { Shutdown(absl::Seconds(1)); }

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              RpcTable& table) {
  static auto* const gate = new OpenGate;
  return Start(options, table, *gate);
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const Options& options,
                                                              RpcTable& table, CallGate& gate) {
  auto listen = ParseHostPort(options.listen);
  if (!listen.ok()) return listen.status();
  RETURN_IF_ERROR(
      CheckListen(*listen, options.tls != nullptr, options.credentials, options.insecure));
  grpc::EnableDefaultHealthCheckService(true);
  AddReflection(table);

  auto state = std::make_unique<State>(table, gate, options.metrics);
  grpc::ServerBuilder builder;
  state->credentials = options.tls == nullptr ? grpc::InsecureServerCredentials()
                                              : NewServerCredentials(options.tls);
  builder.AddListeningPort(listen->ToString(), state->credentials, &state->port);
  builder.RegisterCallbackGenericService(&state->dispatcher);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.receive_bytes_max));
  builder.SetMaxSendMessageSize(static_cast<int>(options.send_bytes_max));
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  // Accept uncompressed messages only: this gRPC does not bound decompression by the receive limit.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  grpc::ResourceQuota quota("escapement");
  quota.Resize(options.buffer_bytes_max);
  builder.SetResourceQuota(quota);
  // Otherwise a second process would silently share the port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_per_connection_max);
  builder.AddChannelArgument(
      GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.handshake_timeout)));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 * 1024);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);

  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen->ToString(), " (is the port in use?)"));
  }
  listen->port = static_cast<uint16_t>(state->port);
  state->address = listen->ToString();
  std::unique_ptr<GrpcServer> server(new GrpcServer(std::move(state)));
  server->SetServing(false);
  return server;
}

const std::string& GrpcServer::address() const { return state_->address; }
int GrpcServer::port() const { return state_->port; }

std::shared_ptr<grpc::Channel> GrpcServer::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return state_->server->InProcessChannel(arguments);
}

void GrpcServer::SetServing(bool serving) {
  auto* health = state_->server->GetHealthCheckService();
  if (health != nullptr) health->SetServingStatus(serving);
}

void GrpcServer::Shutdown(absl::Duration grace) {
  state_->server->Shutdown(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(grace));
  state_->server->Wait();
}

}  // namespace escapement
