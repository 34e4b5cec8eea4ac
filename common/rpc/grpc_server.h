// GrpcServer: the gRPC port of a process. CallMetrics: how many calls it has answered, with a
// MethodMetrics for each method.

#ifndef COMMON_RPC_GRPC_SERVER_H_
#define COMMON_RPC_GRPC_SERVER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "common/tls/tls_files.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement {

// MethodMetrics: the calls of one method.
//
// Threads: any.
class MethodMetrics {
 public:
  MethodMetrics(Metrics& metrics, const Clock& clock, std::string method);

  absl::Duration Now() const { return clock_.Elapsed(); }
  // `began` is Now() at the arrival of the call.
  void Answered(absl::StatusCode code, absl::Duration began);
  // Without a duration: the call was refused before its request was read.
  void Refused(absl::StatusCode code);
  // The stream is open until the last copy of the result is gone.
  std::shared_ptr<const void> StreamOpened();

 private:
  static constexpr size_t kCodes = 17;  // 0 to UNAUTHENTICATED

  Metrics& metrics_;
  const Clock& clock_;
  const std::string method_;
  // Null until they are needed. Metrics returns the same pointer to threads that ask together.
  std::array<std::atomic<Counter*>, kCodes> handled_{};
  std::atomic<Histogram*> seconds_{nullptr};
};

// CallMetrics: how many calls a gRPC server has answered, with which codes, and how fast.
//
//   escapement_rpc_handled_total{method, code}     unary calls, and refused calls of any kind
//   escapement_rpc_handling_seconds{method}        unary calls, from their arrival to the answer
//   escapement_rpc_streams_opened_total{method}    streams that the gate has admitted
//   escapement_rpc_streams_open{method}
//
// `method` is "escapement.v1.ScheduleService/GetSchedule", or "unknown" for all names that the
// server does not know, so a caller cannot make new series. A series appears with the first call.
//
// Threads: any.
class CallMetrics {
 public:
  // Both must outlive it and the server.
  CallMetrics(Metrics& metrics, const Clock& clock) : metrics_(metrics), clock_(clock) {}

  // `path` as on the wire, of a method that the server has: "/escapement.v1.EventService/Ingest".
  // The reference is good as long as this object.
  MethodMetrics& Of(absl::string_view path);
  MethodMetrics& Unknown() { return Of("/unknown"); }

 private:
  Metrics& metrics_;
  const Clock& clock_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<MethodMetrics>> methods_ ABSL_GUARDED_BY(mutex_);
};

class CallGate;
class RpcTable;

// GrpcServer: the gRPC port of a process, with health service and reflection. It passes each call
// through a CallGate to the methods of an RpcTable.
//
// Threads: any thread may call Start, SetServing and Shutdown. Shutdown blocks until the running
// calls have ended or were cancelled at its deadline.
class GrpcServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";       // host:port; port 0 = any
    std::shared_ptr<TlsFiles> tls = nullptr;  // null: no TLS
    // True if each call must prove who sends it. host_port.h says which addresses are accepted.
    bool credentials = false;
    bool insecure = false;  // accepts every address
    // A larger request is refused with RESOURCE_EXHAUSTED and no details (gRPC buffers a message
    // before it looks at its size). The default is above every documented total (8 MiB of events or
    // outputs). So a request that exceeds such a total is refused with the name of its field.
    size_t receive_bytes_max = 16 << 20;
    size_t send_bytes_max = 64 << 20;
    // Buffers of all connections together; above this gRPC stops reading.
    size_t buffer_bytes_max = 512 << 20;
    // Concurrent streams of one connection; further calls wait at the client.
    int streams_per_connection_max = 1000;
    // From a connection's beginning to the end of its TLS handshake and HTTP/2 settings.
    absl::Duration handshake_timeout = absl::Seconds(15);
    // After about this time (10 % more or less) a connection takes no further calls, so the client
    // connects again, perhaps to another server behind the same address. Open calls and streams
    // stay until they end. Does not apply to InProcessChannel.
    absl::Duration connection_age = absl::InfiniteDuration();
    CallMetrics* metrics = nullptr;  // counts the calls; null or outlives the server
  };

  // Listens and serves at once, with health NOT_SERVING. It adds reflection to `table`. `table` and
  // `gate` must outlive the server. INVALID_ARGUMENT: a bad address, or one beyond loopback
  // (host_port.h). UNAVAILABLE: the port cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options, RpcTable& table,
                                                           CallGate& gate);
  // Admits everybody.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const Options& options, RpcTable& table);
  ~GrpcServer();  // as Shutdown(1 s)
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // "host:port" with the real port.
  const std::string& address() const;
  int port() const;

  // A channel to this server without sockets. It must not be used after Shutdown.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Sets the health service's answer for every service of the server.
  void SetServing(bool serving);

  // Accepts no further calls, lets running calls end, and cancels the rest after `grace`.
  // Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace escapement

#endif  // COMMON_RPC_GRPC_SERVER_H_
