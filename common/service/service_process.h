// RunService: everything that the processes of the platform have in common, so that a main.cc only
// wires.
//
//   flags → config → options, all errors printed before the first thread → log → metrics, HTTP →
//   service → gRPC →
//   "listening grpc=host:port http=host:port" on stdout → wait for SIGTERM or SIGINT → drain → exit
//
// It defines the flags --listen, --http_listen, --insecure, --port_file, --config, --print_config,
// --version, --log_level, --instance and --drain_timeout, and serves gRPC health and reflection,
// and /metrics, /healthz, /readyz over HTTP.
//
// On the first SIGTERM or SIGINT: health NOT_SERVING and /readyz 503 → HostedService::Drain (stop
// taking → release leases → bring to an end) → the gRPC port lets calls end → exit 0; 1 if the
// drain did not end within --drain_timeout. A second signal ends the process at once.

#ifndef COMMON_SERVICE_SERVICE_PROCESS_H_
#define COMMON_SERVICE_SERVICE_PROCESS_H_

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
#include "common/runtime/runtime.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace escapement {

// What a process runs. Made, started, drained and destroyed on the main thread.
class HostedService {
 public:
  virtual ~HostedService() = default;

  // Registered with the gRPC server before Start; live as long as this object.
  virtual std::vector<grpc::Service*> GrpcServices() = 0;

  // Begins work. An error ends the process with exit code 1.
  virtual absl::Status Start() = 0;

  // Any thread: whether calls are welcome now (a session with the store is open). Asked for /readyz
  // and health.
  virtual bool Ready() = 0;

  // Any thread: why Ready() is false, in one line for the body of /readyz. Empty: there is no more
  // to say than that it is not ready.
  virtual std::string NotReadyReason() { return {}; }

  // Stops taking work, releases leases, brings to an end what is under way, then calls `done` once,
  // from any thread.
  virtual void Drain(Closure done) = 0;
};

// What a service may use of its process; all outlive it.
struct ServiceContext {
  Runtime& runtime;
  Metrics& metrics;
  HttpServer& http;              // for further routes, while the service is made
  std::string instance;          // unique for each start of a process
  absl::Duration drain_timeout;  // Drain that has not ended by then is given up, with exit code 1
};

struct ServiceDefinition {
  std::string name;         // "handler": in logs and metrics
  std::string description;  // one sentence for --help
  std::string listen;       // defaults of the flags
  std::string http_listen;
  size_t receive_bytes_max = 16 << 20;  // of one gRPC message; see GrpcServer::Options

  // Appends a sentence for each flag of the service's own that cannot be.
  std::function<void(std::vector<std::string>& errors)> validate;
  std::function<absl::StatusOr<std::unique_ptr<HostedService>>(const ServiceContext& context)> make;
};

// What /readyz answers: 200, or 503 with the reason in its body.
HttpResponse AnswerReadyz(bool ready, HostedService& service);

// The process's exit code: 0, 1 (could not start, or not drained in time), 2 (bad flags or config).
int RunService(int argc, char** argv, const ServiceDefinition& definition);

}  // namespace escapement

#endif  // COMMON_SERVICE_SERVICE_PROCESS_H_
