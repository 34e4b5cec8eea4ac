// The stages of recovery: the platform after an outage, a store that is killed under load, a
// handler that is.
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
  std::string folder = {};  // made; each call takes a new one
  uint64_t overdue_events = 1'000'000;
  double per_second = 2000;                  // of the steady load
  absl::Duration before = absl::Seconds(5);  // of steady load before the kill
  absl::Duration after = absl::Seconds(20);  // and behind it
  absl::Duration down = absl::Hours(1);      // by the store's time
  absl::Duration delivery_timeout = absl::Seconds(5);
  size_t payload_bytes = 500;
};

// All processes are killed; one-off events that had been stored before fall due over the time that
// they are down; all start again.
absl::Status MeasureOverdue(const RecoveryOptions& options, bool separate, Figures& figures);

// The store of five processes is killed under a steady load and started again at once.
absl::Status MeasureStoreRestart(const RecoveryOptions& options, Figures& figures);

// One of two handlers is killed under a steady load, and stays away.
absl::Status MeasureTakeover(const RecoveryOptions& options, Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_RECOVERY_STAGES_H_
