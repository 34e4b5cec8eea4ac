// The pace of store time. Normally the rate of store time differs from that of
// monotonic time by at most StoreClock::kSlewMax. If the wall clock was set back, store time passes
// at half pace from an announced store time (`slow_from`) on, until the wall clock has caught up.
//
// At half pace, unlike at a stop, waits still end and leases still expire. A process that waits
// again for the rest of its wait reaches the end in few steps (docs/adr/0013).
//
// Pure.

#ifndef COMMON_KV_STORE_PACE_H_
#define COMMON_KV_STORE_PACE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace escapement::kv {

// Monotonic time per unit of store time in a slow phase.
inline constexpr int64_t kSlowPaceDivisor = 2;

// The pace as the store announces it.
struct Pace {
  // From this store time on, store time passes at half pace. InfiniteFuture: no slow phase is
  // announced.
  absl::Time slow_from = absl::InfiniteFuture();
  // How far all slow phases so far have put store time behind full pace. Store time + slowed always
  // advances at full pace, also over restarts. By it a client notices that it missed a slow phase.
  absl::Duration slowed = absl::ZeroDuration();

  friend bool operator==(const Pace&, const Pace&) = default;
};

// The store time reached from `base` after `passed`, a duration at full pace.
inline absl::Time AtSlowPace(absl::Time base, absl::Duration passed, absl::Time slow_from) {
  const absl::Time full = base + passed;
  if (full <= slow_from) return full;
  const absl::Time bend = std::max(base, slow_from);
  return bend + (full - bend) / kSlowPaceDivisor;
}

}  // namespace escapement::kv

#endif  // COMMON_KV_STORE_PACE_H_
