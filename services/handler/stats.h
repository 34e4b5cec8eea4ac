// What a handler counts. Written on its executor, read from any thread (each number for itself).

#ifndef SERVICES_HANDLER_STATS_H_
#define SERVICES_HANDLER_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace escapement::handler {

struct HandlerStats {
  using Count = std::atomic<uint64_t>;
  Count deliveries{0};  // attempts handed to the transport
  Count accepted{0};
  // Events whose end is durable: their Done or, of granted ones, its report.
  Count succeeded{0};
  Count retries{0};
  Count dead_letters{0};
  Count skipped{0};
  Count parked{0};
  Count claims{0};
  Count claims_failed{0};
  Count rows_loaded{0};
  Count takeovers{0};     // events of a former owner: sent again or, granted ones, reported so
  Count broken_rows{0};   // that could not be read: our bug or damage, somebody must look
  Count refused_ends{0};  // ends that the store refused for good: the lease is lost, or our bug
  // Gauges.
  Count rows_in_memory{0};
  Count events_out{0};
  Count shards_held{0};
  // How late first attempts were handed to the transport: bucket i counts those up to
  // kLatenessBounds[i], the last the rest.
  static constexpr std::array<double, 12> kLatenessBounds = {
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30};
  std::array<Count, kLatenessBounds.size() + 1> lateness = {};
  std::atomic<double> lateness_seconds_sum{0};

  void AddLateness(absl::Duration late, uint64_t events) {
    const double seconds = absl::ToDoubleSeconds(late);
    size_t bucket = 0;
    while (bucket < kLatenessBounds.size() && seconds > kLatenessBounds[bucket]) ++bucket;
    Add(lateness[bucket], events);
    lateness_seconds_sum.store(
        lateness_seconds_sum.load(std::memory_order_relaxed) + seconds * events,
        std::memory_order_relaxed);
  }
  // One writer: cheaper than an atomic addition.
  static void Add(Count& count, uint64_t n) {
    count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_STATS_H_
