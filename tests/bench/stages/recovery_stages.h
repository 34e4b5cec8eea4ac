// The stages of recovery: the platform after an outage, a store killed under load, and a handler
// killed under load.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_RECOVERY_STAGES_H_
#define TESTS_BENCH_STAGES_RECOVERY_STAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/bench/figures/figures.h"

namespace escapement::bench {

struct RecoveryOptions {
  std::string bin;
  std::string folder = {};  // each call uses a new one, which it makes
  uint64_t overdue_events = 1'000'000;
  double per_second = 2000;                  // rate of the steady load
  absl::Duration before = absl::Seconds(5);  // steady load before the kill
  absl::Duration after = absl::Seconds(20);  // steady load after the kill
  absl::Duration down = absl::Hours(1);      // length of the outage, by the store's time
  absl::Duration delivery_timeout = absl::Seconds(5);
  size_t payload_bytes = 500;
};

// Kills all processes. One-off events that were stored before fall due during the outage. Then all
// processes start again.
absl::Status MeasureOverdue(const RecoveryOptions& options, bool separate, Figures& figures);

// Kills the store of five processes under a steady load, and starts it again at once.
absl::Status MeasureStoreRestart(const RecoveryOptions& options, Figures& figures);

// Kills one of two handlers under a steady load, and does not restart it.
absl::Status MeasureTakeover(const RecoveryOptions& options, Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_RECOVERY_STAGES_H_
