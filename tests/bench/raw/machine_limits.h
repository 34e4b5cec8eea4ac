// The machine's own limits at the time of a load: those of its disk and of its processors.

#ifndef TESTS_BENCH_RAW_MACHINE_LIMITS_H_
#define TESTS_BENCH_RAW_MACHINE_LIMITS_H_

#include <future>
#include <string>

#include "absl/time/time.h"
#include "tests/bench/figures/figures.h"
#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

struct MachineLimits {
  fixtures::LatencyHistogram syncs;      // RawSyncs
  fixtures::LatencyHistogram real_time;  // RawRealTimeTimer, 1,000 instants a second
};

// Measures from now on for `duration`, on threads of its own. Syncs are made in `folder`.
std::future<MachineLimits> MeasureMachineLimits(const std::string& folder, absl::Duration duration);

// Adds p99 and maximum of both, in milliseconds. Leaves real-time timers out where they are not
// permitted.
void AddMachineLimits(const std::string& name, const MachineLimits& limits, Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_MACHINE_LIMITS_H_
