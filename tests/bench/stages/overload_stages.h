// The stages of overload. Each takes a platform of its own that has just started, measures the
// capacity first, and adds its figures with their bounds.
//
// The public API serves one tenant: the flood comes from one schedule, one policy or one target,
// and the others are events to another target.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_OVERLOAD_STAGES_H_
#define TESTS_BENCH_STAGES_OVERLOAD_STAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/bench/beds/overload_bed.h"
#include "tests/bench/figures/figures.h"

namespace escapement::bench {

struct OverloadSizes {
  // Of each measurement of capacity. A few hundred thousand would flatter it: 32,768 rows are in
  // memory before they are due, 16,384 need not have ended when the last one arrives, and what is
  // written is flushed and compacted later.
  uint64_t capacity_events = 500'000;
  uint64_t spike_seconds = 5;  // how many seconds' worth of ten times the steady load
  uint64_t backlog_events = 1'000'000;
  int missing_schedules = 200;  // that fire each second and have missed what the emitter has
  uint64_t flood_events = 1'000'000;
  absl::Duration steady = absl::Seconds(4);  // before the flood
  absl::Duration flood = absl::Seconds(12);  // watched, if it does not end
};

// A steady load of a tenth of the capacity to one target; at one instant ten times as much falls
// due to another, for `spike_seconds` seconds' worth.
absl::Status MeasureSpike(OverloadBed& bed, const OverloadSizes& sizes, Figures& figures);

// Handler and emitter are gone while events fall due; then they come back, and on-time events of
// another target fall due beside the backlog.
enum class Backlog {
  kStoredBefore,  // as they fell due
  kStoredLate,    // when they had been due for up to an hour: it makes them due at once
};
absl::Status MeasureOutage(OverloadBed& bed, const OverloadSizes& sizes, Backlog backlog,
                           Figures& figures);

// One schedule fires a run of `flood_events` while 1,000 on-time events a second go to another
// target.
enum class Flood {
  kFast,       // its consumer answers at once
  kSlow,       // … after 2 s
  kDead,       // there is none
  kThrottled,  // … at once, at most 100 at a time by a policy
};
absl::Status MeasureFlood(OverloadBed& bed, const OverloadSizes& sizes, Flood flood,
                          Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_OVERLOAD_STAGES_H_
