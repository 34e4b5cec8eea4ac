#include "common/backoff/backoff.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"

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

absl::Duration EqualJitterBackoff(const BackoffPolicy& policy, uint32_t attempts, uint64_t random) {
  return (BackoffCap(policy, attempts) + FullJitterBackoff(policy, attempts, random)) / 2;
}

namespace {

constexpr size_t kReasonBytesMax = 256;  // the bound of EventRecord.last_error
constexpr absl::string_view kNotPastNext = "not tried again past the next occurrence";
constexpr absl::string_view kRetryAfterCut =
    "its Retry-After ends after the event's max_age: tried again shortly before that";
constexpr absl::string_view kSeparator = "; ";
// A retry whose Retry-After was cut begins so long before the end, to be in time.
constexpr absl::Duration kBeforeEnd = absl::Seconds(1);

std::string Explained(absl::string_view last_error, absl::string_view why) {
  if (last_error.empty()) return std::string(why);
  return absl::StrCat(CleanText(last_error, kReasonBytesMax - kSeparator.size() - why.size()),
                      kSeparator, why);
}

}  // namespace

RetryPlan PlanRetry(const RetryInput& input) {
  if (input.attempts >= input.attempts_max) return {};
  const absl::Duration wait = EqualJitterBackoff(input.backoff, input.attempts, input.random);
  const absl::Time earliest = input.now + wait;
  const absl::Time asked = input.now + input.retry_after;
  const absl::Time age_end = input.tried_since + input.age_max;
  if (earliest > age_end) return {};
  const bool cut = asked > age_end;
  const absl::Time last = age_end - kBeforeEnd;
  if (cut && input.now >= last) return {};
  const absl::Time at = std::max(earliest, cut ? last : asked);
  if (input.next_occurrence.has_value() && at >= *input.next_occurrence)
    return {.at = std::nullopt, .past_next_occurrence = true};
  return {.at = at, .retry_after_cut = cut};
}

std::string PastNextOccurrence(absl::string_view last_error) {
  return Explained(last_error, kNotPastNext);
}

std::string RetryAfterCut(absl::string_view last_error) {
  return Explained(last_error, kRetryAfterCut);
}

}  // namespace escapement
