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

#ifndef COMMON_RPC_CALL_METRICS_H_
#define COMMON_RPC_CALL_METRICS_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"

namespace escapement {

// The calls of one method.
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

}  // namespace escapement

#endif  // COMMON_RPC_CALL_METRICS_H_
