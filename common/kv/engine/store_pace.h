// The pace of store time. Ordinarily it passes as monotonic time does, give or take
// StoreClock::kSlewMax. While the wall clock has been set back, store time passes at half pace from
// an announced store time (`slow_from`) on, until the wall clock has caught up.
//
// Half pace rather than a stop: waits for a store time still end, leases still expire, and who
// waits again for what is left of a wait comes near in few steps (docs/adr/0013).
//
// Pure.

#ifndef COMMON_KV_ENGINE_STORE_PACE_H_
#define COMMON_KV_ENGINE_STORE_PACE_H_

#include <algorithm>

#include "absl/time/time.h"

namespace escapement::kv {

// Monotonic time for each unit of store time in a slow phase.
inline constexpr int64_t kSlowPaceDivisor = 2;

// What the store tells of its pace.
struct Pace {
  // Store time passes at half pace from this store time on; InfiniteFuture: no slow phase has been
  // announced.
  absl::Time slow_from = absl::InfiniteFuture();
  // How far store time is behind full pace by all slow phases so far. Store time + slowed always
  // advances at full pace, also over restarts: by it a client that has missed a slow phase notices.
  absl::Duration slowed = absl::ZeroDuration();

  friend bool operator==(const Pace&, const Pace&) = default;
};

// The store time that is reached from `base` with `passed`, a duration that store time would
// advance at full pace.
inline absl::Time AtSlowPace(absl::Time base, absl::Duration passed, absl::Time slow_from) {
  const absl::Time full = base + passed;
  if (full <= slow_from) return full;
  const absl::Time bend = std::max(base, slow_from);
  return bend + (full - bend) / kSlowPaceDivisor;
}

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_STORE_PACE_H_
