#include "common/rpc/call_metrics.h"

#include <utility>

#include "absl/strings/strip.h"

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

}  // namespace escapement
