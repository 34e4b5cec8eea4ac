#include "common/backoff/retry_plan.h"

#include <algorithm>

namespace escapement {

std::optional<absl::Time> PlanRetry(const RetryInput& input) {
  if (input.attempts >= input.attempts_max) return std::nullopt;
  const absl::Duration wait = FullJitterBackoff(input.backoff, input.attempts, input.random);
  const absl::Time at = input.now + std::max(wait, input.retry_after);
  if (at > input.launch_time + input.age_max) return std::nullopt;
  return at;
}

}  // namespace escapement
