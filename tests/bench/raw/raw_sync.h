// Small synchronous writes to the disk: the raw limit of everything that is durable.

#ifndef TESTS_BENCH_RAW_RAW_SYNC_H_
#define TESTS_BENCH_RAW_RAW_SYNC_H_

#include <string>

#include "absl/time/time.h"
#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

// For `duration`, 50 times a second, overwrites 4 KiB of a file of its own in `folder` and syncs
// it. Returns how long each took, in microseconds. Empty if the file cannot be written.
fixtures::LatencyHistogram RawSyncs(const std::string& folder, absl::Duration duration);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_SYNC_H_
