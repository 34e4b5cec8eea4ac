// GapAfterStep: the pause between two steps of a handler.
//
// Work that arrives during the pause is handled together in the next step. At thousands of events a
// second this costs much less processor time than handling each alone. The pause is a multiple of
// the last step's duration: with little to do, steps are short and work hardly waits. The sends of
// claimed events do not wait.

#ifndef SERVICES_HANDLER_BASE_STEP_GAP_H_
#define SERVICES_HANDLER_BASE_STEP_GAP_H_

#include <algorithm>

#include "absl/time/time.h"

namespace escapement::handler {

inline constexpr int kStepGapTimes = 4;
inline constexpr absl::Duration kStepGapMin = absl::Microseconds(50);
inline constexpr absl::Duration kStepGapMax = absl::Microseconds(500);

// The time from the end of a step that took `step` to the earliest begin of the next one.
inline absl::Duration GapAfterStep(absl::Duration step) {
  return std::clamp(kStepGapTimes * step, kStepGapMin, kStepGapMax);
}

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_BASE_STEP_GAP_H_
