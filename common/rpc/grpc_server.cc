#include "common/rpc/grpc_server.h"

#include <grpc/grpc.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/tls/credentials_grpc.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"

namespace escapement {

namespace {

// Returns what `slot` holds, after it was set to `make()` if it was null. Threads that come
// together make the same pointer.
template <typename T, typename Make>
T& Once(std::atomic<T*>& slot, const Make& make) {
  T* child = slot.load(std::memory_order_acquire);
  if (child == nullptr) {
    child = make();
    slot.store(child, std::memory_order_release);
  }
  return *child;
}

}  // namespace

MethodMetrics::MethodMetrics(Metrics& metrics, const Clock& clock, std::string method)
    : metrics_(metrics), clock_(clock), method_(std::move(method)) {}

void MethodMetrics::Answered(absl::StatusCode code, absl::Duration began) {
  Refused(code);
  Once(seconds_, [this] {
    return metrics_.GetHistogram(
        "escapement_rpc_handling_seconds",
        "How long unary calls took, from their arrival to the answer.",
        {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
        {{"method", method_}});
  }).Observe(absl::ToDoubleSeconds(Now() - began));
}

void MethodMetrics::Refused(absl::StatusCode code) {
  const auto number = static_cast<size_t>(code);
  const size_t place = number < kCodes ? number : static_cast<size_t>(absl::StatusCode::kUnknown);
  Once(handled_[place], [this, place] {
    return metrics_.GetCounter(
        "escapement_rpc_handled_total", "Unary calls answered, and calls of any kind refused.",
        {{"method", method_},
         {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(place))}});
  }).Increment();
}

std::shared_ptr<const void> MethodMetrics::StreamOpened() {
  metrics_
      .GetCounter("escapement_rpc_streams_opened_total", "Streams that the server has admitted.",
                  {{"method", method_}})
      ->Increment();
  Gauge* open = metrics_.GetGauge("escapement_rpc_streams_open", "Streams that are open.",
                                  {{"method", method_}});
  open->Add(1);
  return {open, [](Gauge* gauge) { gauge->Add(-1); }};
}

MethodMetrics& CallMetrics::Of(absl::string_view path) {
  absl::MutexLock lock(&mutex_);
  auto& method = methods_[path];
  if (method == nullptr)
    method = std::make_unique<MethodMetrics>(metrics_, clock_,
                                             std::string(absl::StripPrefix(path, "/")));
  return *method;
}

namespace {

// The client's keepalive (channel.cc) pings every 10 s. A client that pings more often than this
// gets a GOAWAY.
constexpr int kMinPingIntervalMillis = 5'000;

}  // namespace

struct GrpcServer::State {
  State(RpcTable& table, CallGate& gate, const Options& options)
      : tls(options.tls), dispatcher(table, gate, options.metrics, tls.get()) {}

  const std::shared_ptr<TlsFiles> tls;
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
  ASSIGN_OR_RETURN(auto listen, ParseHostPort(options.listen));
  RETURN_IF_ERROR(
      CheckListen(listen, options.tls != nullptr, options.credentials, options.insecure));
  grpc::EnableDefaultHealthCheckService(true);
  AddReflection(table);

  auto state = std::make_unique<State>(table, gate, options);
  grpc::ServerBuilder builder;
  state->credentials = options.tls == nullptr ? grpc::InsecureServerCredentials()
                                              : NewServerCredentials(options.tls);
  builder.AddListeningPort(listen.ToString(), state->credentials, &state->port);
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
  if (options.connection_age != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(options.connection_age)));
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 * 1024);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);

  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen.ToString(), " (is the port in use?)"));
  }
  listen.port = static_cast<uint16_t>(state->port);
  state->address = listen.ToString();
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
