// What becomes of an event after an attempt that was not accepted.
//
// Pure.

#ifndef COMMON_BACKOFF_RETRY_PLAN_H_
#define COMMON_BACKOFF_RETRY_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/backoff/backoff.h"

namespace escapement {

struct RetryInput {
  BackoffPolicy backoff;
  uint32_t attempts_max = 1;
  absl::Duration age_max;
  uint32_t attempts = 1;   // that have begun, this one included
  absl::Time launch_time;  // age counts from it
  absl::Time now;
  absl::Duration retry_after;  // asked for by the consumer; zero: nothing asked
  uint64_t random = 0;
};

// When to try again; nullopt: it is a dead letter (no attempt left, or the next one would begin
// past the greatest age).
std::optional<absl::Time> PlanRetry(const RetryInput& input);

}  // namespace escapement

#endif  // COMMON_BACKOFF_RETRY_PLAN_H_
