// ClockHold: what every process says about a hold of the store's clock (store_clock.h).
//
// Pure.

#ifndef COMMON_KV_ENGINE_CLOCK_HOLD_H_
#define COMMON_KV_ENGINE_CLOCK_HOLD_H_

#include <string>

#include "absl/time/time.h"

namespace escapement::kv {

struct ClockHold {
  absl::Duration lasted;        // since emission was held
  absl::Duration disagreement;  // wall clock less store time; negative: the wall clock is behind
};

// A process stays ready during a hold of this length: twice what a step of minutes needs until it
// is followed.
inline constexpr absl::Duration kClockHoldReadyMax = absl::Seconds(10);

// Why a process is not ready, for /readyz: "clock: held for 12 s, wall clock 2 h ahead". Empty
// while the hold is not longer than kClockHoldReadyMax.
std::string NotReadyReason(const ClockHold& hold);

}  // namespace escapement::kv

#endif  // COMMON_KV_ENGINE_CLOCK_HOLD_H_
