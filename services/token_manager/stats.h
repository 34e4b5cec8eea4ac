// What a token manager counts. Written on its executor, read from any thread (each number for
// itself).

#ifndef SERVICES_TOKEN_MANAGER_STATS_H_
#define SERVICES_TOKEN_MANAGER_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace escapement::token_manager {

struct TokenManagerStats {
  using Count = std::atomic<uint64_t>;
  Count granted{0};           // events
  Count released{0};          // events whose token was taken back, however
  Count delivered{0};         // events reported as accepted
  Count completions{0};       // of consumers (Apply and stored reports) that took effect
  Count completions_void{0};  // that named a token not held any more
  Count succeeded{0};         // events whose Done is durable
  Count failed{0};            // dead letters
  Count retries{0};
  Count returned{0};      // given back unattempted
  Count resent{0};        // claimed again for a handler that was gone
  Count expired{0};       // hold times that ran out
  Count undelivered{0};   // taken back because nothing was ever said of them
  Count dropped{0};       // events that a window's end has ended
  Count carried_over{0};  // rows
  Count skipped{0};
  Count parked{0};  // rows
  Count moved{0};   // rows
  Count commits{0};
  Count grants_refused{0};  // groups: a state or policy had changed
  Count broken_rows{0};     // that could not be read: our bug or damage, somebody must look
  Count rows_loaded{0};
  // Gauges.
  Count shards_held{0};
  Count policies_active{0};  // with something waiting or held: in memory
  Count rows_in_memory{0};
  Count held{0};  // tokens out now, of all shards owned
  Count completions_waiting{0};
  Count undelivered_now{0};
  // How long granted events had been due: bucket i counts those up to kWaitBounds[i], the last the
  // rest.
  static constexpr std::array<double, 12> kWaitBounds = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5,
                                                         1,     5,     10,   60,   600, 3600};
  std::array<Count, kWaitBounds.size() + 1> wait = {};
  std::atomic<double> wait_seconds_sum{0};

  void AddWait(absl::Duration waited, uint64_t events) {
    const double seconds =
        absl::ToDoubleSeconds(waited < absl::ZeroDuration() ? absl::ZeroDuration() : waited);
    size_t bucket = 0;
    while (bucket < kWaitBounds.size() && seconds > kWaitBounds[bucket]) ++bucket;
    Add(wait[bucket], events);
    wait_seconds_sum.store(
        wait_seconds_sum.load(std::memory_order_relaxed) + seconds * static_cast<double>(events),
        std::memory_order_relaxed);
  }
  // One writer: cheaper than an atomic addition.
  static void Add(Count& count, uint64_t n) {
    count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_STATS_H_
