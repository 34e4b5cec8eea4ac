// Exponential backoff with full jitter: the wait before attempt k + 1 is uniform in [0, min(max,
// min × multiplier^(k-1))].
//
// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
//
// Pure: the random number is an argument.

#ifndef COMMON_BACKOFF_BACKOFF_H_
#define COMMON_BACKOFF_BACKOFF_H_

#include <cstdint>

#include "absl/time/time.h"

namespace escapement {

struct BackoffPolicy {
  absl::Duration min = absl::Seconds(1);
  absl::Duration max = absl::Seconds(300);
  double multiplier = 2;
};

// The longest wait after `attempts` failed attempts (at least 1).
absl::Duration BackoffCap(const BackoffPolicy& policy, uint32_t attempts);

// `random` must be uniform over all 2^64 values.
absl::Duration FullJitterBackoff(const BackoffPolicy& policy, uint32_t attempts, uint64_t random);

}  // namespace escapement

#endif  // COMMON_BACKOFF_BACKOFF_H_
