#include "services/handler/target_health/hanging_attempts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace escapement::handler {
namespace {

constexpr int64_t kHangsFactor = 3;
constexpr int64_t kHangsMinNanos = 1'000'000'000;
constexpr int64_t kStepNanos = 250'000'000;
constexpr int64_t kCountEveryNanos = 100'000'000;
// How much of a rate stays after each kCountEveryNanos in which it was lower.
constexpr double kKept = 0.9;
constexpr int64_t kTookWeight = 32;  // one result changes the average by 1/32 of the difference

int64_t StepOf(absl::Duration time) { return absl::ToInt64Nanoseconds(time) / kStepNanos; }

}  // namespace

void HangingAttempts::OnSent(uint64_t attempts, absl::Duration now) {
  const int64_t now_step = StepOf(now);
  if (young_.empty()) begin_ = std::max(begin_, now_step);
  const size_t step = static_cast<size_t>(std::max<int64_t>(now_step - begin_, 0));
  if (young_.size() <= step) young_.resize(step + 1);
  young_[step] += attempts;
}

void HangingAttempts::OnEnded(absl::Duration sent, bool good, absl::Duration now) {
  const int64_t step = std::max<int64_t>(StepOf(sent) - begin_, -1);
  TakeFrom<uint64_t>(step < 0 ? old_ : young_.at(static_cast<size_t>(step)), 1);
  if (!good) return;
  const int64_t took = absl::ToInt64Nanoseconds(now) - absl::ToInt64Nanoseconds(sent);
  took_nanos_ = last_good_.has_value() ? took_nanos_ + (took - took_nanos_) / kTookWeight : took;
  last_good_ = now;
  ++good_;
  good_took_nanos_ += static_cast<double>(took);
}

void HangingAttempts::Count(int64_t now_nanos) {
  const int64_t counted = now_nanos - counted_since_nanos_;
  if (counted < kCountEveryNanos) return;
  const double seconds = 1e-9 * static_cast<double>(counted);
  const double kept =
      std::pow(kKept, static_cast<double>(counted) / static_cast<double>(kCountEveryNanos));
  rate_ = std::max(kept * rate_, static_cast<double>(good_) / seconds);
  good_at_once_ = std::max(kept * good_at_once_, 1e-9 * good_took_nanos_ / seconds);
  good_ = 0;
  good_took_nanos_ = 0;
  counted_since_nanos_ = now_nanos;
}

uint64_t HangingAttempts::Free(absl::Duration timeout, absl::Duration now) {
  const int64_t now_nanos = absl::ToInt64Nanoseconds(now);
  Count(now_nanos);
  const int64_t end =
      (now_nanos - std::max(kHangsMinNanos, kHangsFactor * took_nanos_)) / kStepNanos;
  for (; !young_.empty() && begin_ < end; ++begin_) {
    old_ += young_.front();
    young_.pop_front();
  }
  if (old_ == 0) return 0;
  return std::min(old_, static_cast<uint64_t>(rate_ * absl::ToDoubleSeconds(timeout)));
}

}  // namespace escapement::handler
