// How long the handler waits between two steps: so many times what the first of them took, within
// bounds. What falls due, is answered or is committed so soon after a step is taken together with
// what comes next, which at thousands of events a second costs the processors much less than each
// alone. Where there is little to do a step takes little, and what comes next hardly waits.

#ifndef SERVICES_HANDLER_STEP_GAP_H_
#define SERVICES_HANDLER_STEP_GAP_H_

#include <algorithm>

#include "absl/time/time.h"

namespace escapement::handler {

inline constexpr int kStepGapTimes = 4;
inline constexpr absl::Duration kStepGapMin = absl::Microseconds(50);
inline constexpr absl::Duration kStepGapMax = absl::Microseconds(500);

// From the end of a step that took `step` to the earliest begin of the next.
inline absl::Duration GapAfterStep(absl::Duration step) {
  return std::clamp(kStepGapTimes * step, kStepGapMin, kStepGapMax);
}

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_STEP_GAP_H_
