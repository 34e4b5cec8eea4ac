// How late a thread wakes that sleeps until given instants: the raw limit of everything that is to
// happen in time.

#ifndef TESTS_BENCH_RAW_RAW_TIMER_H_
#define TESTS_BENCH_RAW_RAW_TIMER_H_

#include <cstdint>

#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

// The calling thread sleeps until `count` instants, `per_second` of them: microseconds by which it
// woke later.
fixtures::LatencyHistogram RawTimer(uint64_t count, double per_second);

// The same by one thread on each processor that goes before all that is not real-time (SCHED_FIFO),
// all in one: they are late where a processor stood still, as a virtual one does whose host gives
// it less. Empty where that is not permitted.
fixtures::LatencyHistogram RawRealTimeTimer(uint64_t count, double per_second);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_TIMER_H_
