#include "common/backoff/backoff.h"

#include <algorithm>
#include <cmath>

namespace escapement {

absl::Duration BackoffCap(const BackoffPolicy& policy, uint32_t attempts) {
  const double factor = std::pow(std::max(policy.multiplier, 1.0), attempts > 0 ? attempts - 1 : 0);
  // Compares numbers, because the product of the durations could overflow.
  const double seconds = absl::ToDoubleSeconds(policy.min) * factor;
  if (!(seconds < absl::ToDoubleSeconds(policy.max))) return policy.max;
  return absl::Seconds(seconds);
}

absl::Duration FullJitterBackoff(const BackoffPolicy& policy, uint32_t attempts, uint64_t random) {
  const double fraction = static_cast<double>(random >> 11) * 0x1p-53;
  return BackoffCap(policy, attempts) * fraction;
}

}  // namespace escapement
