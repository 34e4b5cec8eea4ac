// How late a sleeping thread wakes at given instants: the raw limit of everything that must happen
// in time.

#ifndef TESTS_BENCH_RAW_RAW_TIMER_H_
#define TESTS_BENCH_RAW_RAW_TIMER_H_

#include <cstdint>

#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

// The calling thread sleeps until `count` instants, `per_second` of them each second. Returns by
// how many microseconds it woke late.
fixtures::LatencyHistogram RawTimer(uint64_t count, double per_second);

// The same on each processor, by a thread that runs before all threads that are not real-time
// (SCHED_FIFO); all in one histogram. It is late when a processor stood still. That happens to a
// virtual one whose host gives it less. Empty where real-time threads are not permitted.
fixtures::LatencyHistogram RawRealTimeTimer(uint64_t count, double per_second);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_TIMER_H_
