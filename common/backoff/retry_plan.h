// What becomes of an event after an attempt that was not accepted.
//
// Pure.

#ifndef COMMON_BACKOFF_RETRY_PLAN_H_
#define COMMON_BACKOFF_RETRY_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/backoff/backoff.h"

namespace escapement {

struct RetryInput {
  BackoffPolicy backoff;
  uint32_t attempts_max = 1;
  absl::Duration age_max;
  uint32_t attempts = 1;   // that have begun, this one included
  absl::Time tried_since;  // age counts from it
  absl::Time now;
  absl::Duration retry_after;  // asked for by the consumer; zero: nothing asked
  uint64_t random = 0;
  // Of a schedule's event that is not to be tried again at or after it; nullopt: there is no such
  // end.
  std::optional<absl::Time> next_occurrence = std::nullopt;
};

struct RetryPlan {
  // When to try again; nullopt: it is a dead letter (no attempt left, or the next one would begin
  // past the greatest age or not before the next occurrence).
  std::optional<absl::Time> at;
  // It is one for the next occurrence's sake only.
  bool past_next_occurrence = false;
};

RetryPlan PlanRetry(const RetryInput& input);

// The reason of a dead letter that is one for the next occurrence's sake: the last error, cut where
// both would be more than 256 bytes, and what is said of that.
std::string PastNextOccurrence(absl::string_view last_error);

}  // namespace escapement

#endif  // COMMON_BACKOFF_RETRY_PLAN_H_
