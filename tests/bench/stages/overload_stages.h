// The stages of overload. Each takes a platform of its own that has just started, measures the
// capacity first, and adds its figures with their bounds.
//
// The public API serves one tenant. So the flood comes from one schedule, one policy or one target,
// and the other events go to another target.
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
  // Events in each measurement of capacity. A few hundred thousand would show too high a rate. Up
  // to 32,768 rows are in memory before they are due. Up to 16,384 need not have ended when the
  // last one arrives. Writes are flushed and compacted later.
  uint64_t capacity_events = 500'000;
  uint64_t spike_seconds = 5;  // the spike has ten times the steady load of so many seconds
  uint64_t backlog_events = 1'000'000;
  int missing_schedules = 200;  // they fire each second and miss occurrences without the emitter
  uint64_t flood_events = 1'000'000;
  absl::Duration steady = absl::Seconds(4);  // steady load before the flood
  absl::Duration flood = absl::Seconds(12);  // how long a flood is watched if it does not end
};

// A steady load of a tenth of the capacity goes to one target. At one instant, events for another
// target fall due: ten times the steady load of `spike_seconds` seconds.
absl::Status MeasureSpike(OverloadBed& bed, const OverloadSizes& sizes, Figures& figures);

// Handler and emitter are down while events fall due. Then they return, and on-time events of
// another target fall due beside the backlog.
enum class Backlog {
  kStoredBefore,  // events are stored before they fall due
  kStoredLate,    // events are stored up to an hour late; ingest makes them due at once
};
absl::Status MeasureOutage(OverloadBed& bed, const OverloadSizes& sizes, Backlog backlog,
                           Figures& figures);

// One schedule fires a run of `flood_events` while 1,000 on-time events a second go to another
// target.
enum class Flood {
  kFast,       // its consumer answers at once
  kSlow,       // its consumer answers after 2 s
  kDead,       // its consumer does not exist
  kThrottled,  // it answers at once, but a policy lets only 100 out at a time
};
absl::Status MeasureFlood(OverloadBed& bed, const OverloadSizes& sizes, Flood flood,
                          Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_OVERLOAD_STAGES_H_
