// How waiting events rise in priority, so that none waits for ever behind events of lower numbers.

#ifndef COMMON_BASE_AGEING_H_
#define COMMON_BASE_AGEING_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace escapement {

// A waiter rises by one priority each time it has waited this long.
inline constexpr absl::Duration kAgeingStep = absl::Seconds(10);

// The priority, with ageing, of a waiter: priority − ⌊waited / kAgeingStep⌋, at least 0.
inline uint8_t AgedPriority(uint8_t priority, absl::Duration waited) {
  return static_cast<uint8_t>(priority - std::clamp<int64_t>(waited / kAgeingStep, 0, priority));
}

}  // namespace escapement

#endif  // COMMON_BASE_AGEING_H_
