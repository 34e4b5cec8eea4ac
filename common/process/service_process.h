// RunService: the common part of all processes of the platform, so that a main.cc only wires.
//
//   flags → config → options, all errors printed before the first thread → log → metrics, HTTP →
//   service → gRPC →
//   "listening grpc=host:port http=host:port" on stdout → wait for SIGTERM or SIGINT → drain → exit
//
// It defines the flags --listen, --http_listen, --insecure, --port_file, --config, --print_config,
// --version, --log_level, --instance, --instance_file and --drain_timeout, and takes those of
// common/tls, which apply to both ports. It serves gRPC health and reflection, and /metrics,
// /healthz and /readyz over HTTP.
//
// On the first SIGTERM or SIGINT:
// 1. gRPC health is NOT_SERVING and /readyz answers 503.
// 2. HostedService::Drain: stop taking work, release leases, finish running work.
// 3. The gRPC port lets running calls end.
// 4. Exit code 0, or 1 if the drain did not end within --drain_timeout.
//
// A second signal ends the process at once.

#ifndef COMMON_PROCESS_SERVICE_PROCESS_H_
#define COMMON_PROCESS_SERVICE_PROCESS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "common/rpc/call_gate.h"
#include "common/runtime/runtime.h"
#include "common/tls/tls_files.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace escapement {

class RpcTable;
class ShardedService;

// The service that a process runs. The main thread makes, starts, drains and destroys it.
class HostedService {
 public:
  virtual ~HostedService() = default;

  // Adds the RPCs that the process serves. Called once, before the gRPC server starts.
  virtual void AddRpcs(RpcTable& table) {}
  // Decides who may call them. The default admits everybody; a service with RPCs has its own.
  virtual CallGate& gate() {
    static auto* const open = new OpenGate;
    return *open;
  }

  // Adds routes to the HTTP server. Called once, between the starts of the two servers.
  // `in_process` calls the process's own gRPC services.
  // If it returns an error, the process ends with exit code 1.
  virtual absl::Status AddHttpRoutes(HttpServer& http, std::shared_ptr<grpc::Channel> in_process) {
    return absl::OkStatus();
  }

  // Begins work. If it returns an error, the process ends with exit code 1.
  virtual absl::Status Start() = 0;

  // Any thread. True if the service can handle calls now (its session with the store is open). Used
  // for /readyz and gRPC health.
  virtual bool Ready() = 0;

  // Any thread. The reason why Ready() is false, as a line for the body of /readyz. Empty: no
  // further reason. If Ready() is true: what is not served all the same.
  virtual std::string NotReadyReason() { return {}; }

  // The service itself if it owns shards by lease, or null. It lives as long as this object.
  virtual ShardedService* sharded() { return nullptr; }

  // Stops taking work, releases leases, finishes running work, then calls `done` once, on any
  // thread.
  virtual void Drain(Closure done) = 0;
};

// The parts of its process that a service may use; all outlive the service.
struct ServiceContext {
  Runtime& runtime;
  Metrics& metrics;
  std::string instance;  // unique to each start of a process
  // Former processes of this place that are proven to be dead (InstanceFile).
  std::vector<std::string> dead_instances;
  absl::Duration drain_timeout;  // a Drain that takes longer is given up, with exit code 1
  bool on_loopback;              // both ports listen on loopback
  // For calls to the store, from --peer_ca and --tls_cert. Null: no TLS.
  std::shared_ptr<grpc::ChannelCredentials> store_credentials = nullptr;
};

struct ServiceDefinition {
  std::string name;         // for example "handler"; appears in logs and metrics
  std::string description;  // one sentence for --help
  std::string listen;       // default values of the flags
  std::string http_listen;
  size_t receive_bytes_max = 16 << 20;  // for one gRPC message; see GrpcServer::Options
  // Returns GrpcServer::Options::connection_age. Null: connections stay.
  std::function<absl::Duration()> connection_age = nullptr;

  // The value of --instance_file if the flag is empty. Null or empty: no file.
  std::function<std::string()> instance_file = nullptr;
  // The certificate files that its own flags name, for metrics and warnings. Null: none.
  std::function<std::vector<TlsPaths>()> certificates = nullptr;
  // Appends a sentence for each of the service's own flags that has an impossible value.
  std::function<void(std::vector<std::string>& errors)> validate;
  // Returns what the flags ask the process to do instead of serving; null if nothing. Then the
  // process ends, with exit code 0, or 1 after an error.
  std::function<std::function<absl::Status(Runtime&)>()> task = nullptr;
  std::function<absl::StatusOr<std::unique_ptr<HostedService>>(const ServiceContext& context)> make;
};

// The answer of /readyz: 200, or 503; the reason of the service is in its body.
HttpResponse AnswerReadyz(bool ready, HostedService& service);

// Returns the exit code: 0, 1 (could not start, or did not drain in time), or 2 (bad flags or
// config).
int RunService(int argc, char** argv, const ServiceDefinition& definition);

}  // namespace escapement

#endif  // COMMON_PROCESS_SERVICE_PROCESS_H_
