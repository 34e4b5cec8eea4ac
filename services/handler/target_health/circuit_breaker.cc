#include "services/handler/target_health/circuit_breaker.h"

#include <algorithm>

namespace escapement::handler {

CircuitBreaker::State CircuitBreaker::state(absl::Duration now) const {
  if (!down_since_.has_value()) return State::kClosed;
  return now < open_until_ ? State::kOpen : State::kHalfOpen;
}

uint64_t CircuitBreaker::Allowed(absl::Duration now) const {
  switch (state(now)) {
    case State::kClosed:
      return kAnyNumber;
    case State::kOpen:
      return 0;
    case State::kHalfOpen:
      return probe_out_ ? 0 : 1;
  }
  return 0;
}

void CircuitBreaker::OnReserved(uint64_t events, uint64_t unsent, absl::Duration now) {
  if (events == 0 || state(now) != State::kHalfOpen) return;
  if (probe_out_) {
    beside_probe_ += events;
    return;
  }
  probe_out_ = true;
  beside_probe_ = unsent + events - 1;
}

void CircuitBreaker::OnUnreserved(uint64_t events) {
  if (events > beside_probe_) probe_out_ = false;
  beside_probe_ -= std::min(events, beside_probe_);
}

void CircuitBreaker::OnNoResult(absl::Duration sent) {
  if (sent >= open_until_) probe_out_ = false;
}

bool CircuitBreaker::OnResult(bool good, absl::Duration sent, absl::Duration now) {
  if (good) {
    last_good_ = now;
    Close();
    return false;
  }
  if (down_since_.has_value()) {
    const bool of_probe = state(now) == State::kHalfOpen && sent >= open_until_;
    return of_probe && OpenFor(std::min(2 * open_for_, kBreakerOpenMax), now);
  }
  if (bad_.size() < kBreakerResultsMin) {
    bad_.push_back(now);
  } else {
    bad_[oldest_bad_] = now;
    oldest_bad_ = (oldest_bad_ + 1) % kBreakerResultsMin;
  }
  const absl::Duration begin = now - kBreakerWindow;
  if (bad_.size() < kBreakerResultsMin || bad_[oldest_bad_] < begin) return false;
  if (last_good_.has_value() && *last_good_ >= begin) return false;
  down_since_ = now;
  return OpenFor(kBreakerOpenMin, now);
}

bool CircuitBreaker::OpenFor(absl::Duration time, absl::Duration now) {
  open_for_ = time;
  open_until_ = now + time;
  probe_out_ = false;
  return true;
}

void CircuitBreaker::Close() {
  if (!down_since_.has_value() && bad_.empty()) return;
  down_since_.reset();
  probe_out_ = false;
  // A good result ends the window: it takes as many bad ones again, and kBreakerWindow.
  bad_.clear();
  oldest_bad_ = 0;
}

}  // namespace escapement::handler
