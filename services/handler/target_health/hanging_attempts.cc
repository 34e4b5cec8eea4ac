#include "services/handler/target_health/hanging_attempts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace escapement::handler {
namespace {

constexpr int64_t kHangsFactor = 3;
constexpr absl::Duration kHangsMin = absl::Seconds(1);
constexpr absl::Duration kStep = absl::Milliseconds(250);
constexpr absl::Duration kCountEvery = absl::Milliseconds(100);
// How much of a rate stays after each kCountEvery in which it was lower.
constexpr double kKept = 0.9;
constexpr int64_t kTookWeight = 32;  // one result changes the average by 1/32 of the difference

int64_t StepOf(absl::Duration time) { return time / kStep; }

}  // namespace

void HangingAttempts::OnSent(uint64_t attempts, absl::Duration now) {
  if (young_.empty()) begin_ = std::max(begin_, StepOf(now));
  const size_t step = static_cast<size_t>(std::max<int64_t>(StepOf(now) - begin_, 0));
  if (young_.size() <= step) young_.resize(step + 1);
  young_[step] += attempts;
}

void HangingAttempts::OnEnded(absl::Duration sent, bool good, absl::Duration now) {
  const int64_t step = std::max<int64_t>(StepOf(sent) - begin_, -1);
  TakeFrom<uint64_t>(step < 0 ? old_ : young_.at(static_cast<size_t>(step)), 1);
  if (!good) return;
  const absl::Duration took = now - sent;
  took_ = last_good_.has_value() ? took_ + (took - took_) / kTookWeight : took;
  last_good_ = now;
  ++good_;
  good_took_ += took;
}

void HangingAttempts::Count(absl::Duration now) {
  const absl::Duration counted = now - counted_since_;
  if (counted < kCountEvery) return;
  const double seconds = absl::ToDoubleSeconds(counted);
  const double kept = std::pow(kKept, absl::FDivDuration(counted, kCountEvery));
  rate_ = std::max(kept * rate_, static_cast<double>(good_) / seconds);
  good_at_once_ = std::max(kept * good_at_once_, absl::ToDoubleSeconds(good_took_) / seconds);
  good_ = 0;
  good_took_ = absl::ZeroDuration();
  counted_since_ = now;
}

uint64_t HangingAttempts::Free(absl::Duration timeout, absl::Duration now) {
  Count(now);
  const int64_t end = StepOf(now - std::max(kHangsMin, kHangsFactor * took_));
  for (; !young_.empty() && begin_ < end; ++begin_) {
    old_ += young_.front();
    young_.pop_front();
  }
  return std::min(old_, static_cast<uint64_t>(rate_ * absl::ToDoubleSeconds(timeout)));
}

}  // namespace escapement::handler
