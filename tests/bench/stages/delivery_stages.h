// The stages of the delivery benchmark: a run that the platform delivers and records, whatever its
// target, and the same attempts by the transports alone.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_DELIVERY_STAGES_H_
#define TESTS_BENCH_STAGES_DELIVERY_STAGES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/platform_bed.h"

namespace escapement::bench {

class DeliveryStages {
 public:
  // `bed`, which runs and is not secured, outlives it.
  DeliveryStages(PlatformBed* bed, size_t payload_bytes)
      : bed_(bed), payload_bytes_(payload_bytes) {}

  // Events per second of one run, from the handler's first send until the last event's success is
  // durable. Only the platform's record counts, not that of the peer. An error if an event failed.
  absl::StatusOr<double> RunRate(const v1::Target& target, uint64_t events);

  // Attempts per second of a handler's transports in this process, without store and services.
  absl::StatusOr<double> TransportRateTo(const v1::Target& target, uint64_t events) const;

 private:
  // Waits until a counter of the handlers has at least this value.
  absl::Status AwaitCounter(const char* counter, double value, absl::Duration timeout) const;

  PlatformBed* const bed_;
  const size_t payload_bytes_;
  int made_ = 0;  // schedules so far
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_DELIVERY_STAGES_H_
