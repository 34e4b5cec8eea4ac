// Exponential backoff. The cap of the wait before attempt k + 1 is min(max, min ×
// multiplier^(k-1)). With full jitter the wait is uniform in [0, cap], with equal jitter in [cap /
// 2, cap].
//
// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
//
// Pure: the random number is an argument.

#ifndef COMMON_BACKOFF_BACKOFF_H_
#define COMMON_BACKOFF_BACKOFF_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
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
// For retries that are counted: the least time that they last is known.
absl::Duration EqualJitterBackoff(const BackoffPolicy& policy, uint32_t attempts, uint64_t random);

// PlanRetry: decides whether and when an event is tried again after an attempt that was not
// accepted.
//
// Pure.

struct RetryInput {
  BackoffPolicy backoff;
  uint32_t attempts_max = 1;
  absl::Duration age_max;
  uint32_t attempts = 1;   // attempts that have begun, this one included
  absl::Time tried_since;  // when its age began
  absl::Time now;
  absl::Duration retry_after;  // the consumer's Retry-After; zero: none
  uint64_t random = 0;
  // No retry begins at or after this time (RetryEnd); nullopt: no such end.
  std::optional<absl::Time> next_occurrence = std::nullopt;
};

struct RetryPlan {
  // When to try again. nullopt: the event becomes a dead letter, because no attempt is left, or the
  // next one would begin after the age limit or not before the next occurrence.
  std::optional<absl::Time> at;
  // True if the next occurrence is the only reason for the dead letter.
  bool past_next_occurrence = false;
  // True if the consumer's Retry-After would end after the age limit: `at` is shortly before that.
  bool retry_after_cut = false;
};

RetryPlan PlanRetry(const RetryInput& input);

// The reason of a dead letter with past_next_occurrence, and of a failed attempt with
// retry_after_cut: the last error and this explanation, with the error cut to keep both within 256
// bytes.
std::string PastNextOccurrence(absl::string_view last_error);
std::string RetryAfterCut(absl::string_view last_error);

}  // namespace escapement

#endif  // COMMON_BACKOFF_BACKOFF_H_
