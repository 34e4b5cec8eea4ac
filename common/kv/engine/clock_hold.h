// ClockHold: what every process reports about a hold of the store's clock (store_clock.h).
//
// Pure.

#ifndef COMMON_KV_ENGINE_CLOCK_HOLD_H_
#define COMMON_KV_ENGINE_CLOCK_HOLD_H_

#include <string>

#include "absl/time/time.h"

namespace escapement::kv {

struct ClockHold {
  absl::Duration lasted;        // since emission was held
  absl::Duration disagreement;  // wall clock minus store time; negative: the wall clock is behind
};

// A process stays ready while a hold is at most this long. A step of minutes is followed after half
// of this time (StoreClock::kStepStable).
inline constexpr absl::Duration kClockHoldReadyMax = absl::Seconds(10);

// The reason for /readyz why a process is not ready: "clock: held for 12 s, wall clock 2 h ahead".
// Empty while the hold is not longer than kClockHoldReadyMax.
std::string NotReadyReason(const ClockHold& hold);

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_CLOCK_HOLD_H_
