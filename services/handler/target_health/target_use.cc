#include "services/handler/target_health/target_use.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"

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

namespace {

constexpr absl::Duration kHalf = absl::Seconds(30);

}  // namespace

void TargetUse::OnSent(uint64_t attempts, absl::Duration now) {
  in_flight_ += attempts;
  last_used_ = now;
}

TargetUse::Half& TargetUse::NowCounted(absl::Duration now) {
  if (now < now_counted_.begin + kHalf) return now_counted_;
  // After a pause the last half says nothing about the last minute.
  before_ = now < now_counted_.begin + 2 * kHalf ? now_counted_ : Half{.begin = now};
  now_counted_ = {.begin = now};
  return now_counted_;
}

void TargetUse::OnSucceeded(absl::Duration now) {
  TakeFrom<uint64_t>(in_flight_, 1);
  ++NowCounted(now).attempts;
  last_used_ = now;
}

void TargetUse::OnFailed(absl::string_view error, absl::Duration now) {
  TakeFrom<uint64_t>(in_flight_, 1);
  Half& half = NowCounted(now);
  ++half.attempts;
  ++half.failures;
  last_used_ = now;
  last_error_.assign(error.data(), std::min(error.size(), kUseErrorBytesMax));
  last_error_at_ = now;
}

void TargetUse::OnUnsent() { TakeFrom<uint64_t>(in_flight_, 1); }

void TargetUse::Count(const Attempts& attempts, int64_t now_micros) const {
  for (const MinuteSums::SubjectPtr& subject : subjects_) {
    if (subject == nullptr) continue;
    StatisticsSums& ended = subject->At(now_micros);
    ended.attempts += attempts.ended;
    ended.errors += attempts.errors;
    if (attempts.first == 0) continue;
    StatisticsSums& sent = subject->At(attempts.sent_micros);
    sent.late += attempts.late;
    sent.lateness_max_micros = std::max(sent.lateness_max_micros, attempts.lateness_max_micros);
  }
  if (attempts.first > 0 && subjects_[1] != nullptr)
    subjects_[1]->At(attempts.due_micros).due += attempts.first;
}

std::string TargetUse::LastError() const { return CleanText(last_error_, kUseErrorBytesMax); }

TargetUse::Counts TargetUse::CountsAt(absl::Duration now) const {
  if (now >= now_counted_.begin + 2 * kHalf) return {.measured = 2 * kHalf};
  Counts counts{.attempts = now_counted_.attempts,
                .failures = now_counted_.failures,
                .measured = now - now_counted_.begin};
  if (now >= now_counted_.begin + kHalf) return counts;
  counts.attempts += before_.attempts;
  counts.failures += before_.failures;
  counts.measured = now - before_.begin;
  return counts;
}

namespace {

using storage::v1::TargetStateRecord;

TargetStateRecord::Breaker BreakerOf(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::kClosed:
      return TargetStateRecord::CLOSED;
    case CircuitBreaker::State::kOpen:
      return TargetStateRecord::OPEN;
    case CircuitBreaker::State::kHalfOpen:
      return TargetStateRecord::HALF_OPEN;
  }
  return TargetStateRecord::BREAKER_UNSPECIFIED;
}

}  // namespace

storage::v1::TargetRowRecord TargetRowOf(const TargetRowInput& input) {
  const auto micros_of = [&](absl::Duration elapsed) {
    return ToMicros(input.now - (input.elapsed - elapsed));
  };
  storage::v1::TargetRowRecord row;
  row.set_in_flight_max(input.in_flight_max);
  TargetStateRecord& state = *row.mutable_state();
  state.set_target_key(ShownTargetKey(input.target_key));
  state.set_breaker(BreakerOf(input.breaker.state(input.elapsed)));
  if (input.breaker.down_since().has_value()) {
    row.set_down_since_micros(micros_of(*input.breaker.down_since()));
    state.set_open_until_micros(micros_of(input.breaker.open_until()));
  }
  if (input.paused_until.has_value()) row.set_paused_until_micros(micros_of(*input.paused_until));
  state.set_in_flight(input.use.in_flight());
  const TargetUse::Counts counts = input.use.CountsAt(input.elapsed);
  state.set_attempts(counts.attempts);
  state.set_failures(counts.failures);
  state.set_measured_micros(absl::ToInt64Microseconds(counts.measured));
  if (std::string error = input.use.LastError(); !error.empty()) {
    state.set_last_error(std::move(error));
    state.set_last_error_time_micros(micros_of(input.use.last_error_at()));
  }
  state.set_update_time_micros(ToMicros(input.now));
  return row;
}

std::string ShownTargetKey(absl::string_view target_key) {
  std::string shown;
  while (!target_key.empty()) {
    const size_t scheme = target_key.find("://");
    if (scheme == absl::string_view::npos) break;
    absl::StrAppend(&shown, target_key.substr(0, scheme + 3));
    target_key.remove_prefix(scheme + 3);
    const absl::string_view authority = target_key.substr(0, target_key.find_first_of("/?#"));
    const size_t at = authority.rfind('@');
    if (at != absl::string_view::npos) target_key.remove_prefix(at + 1);
  }
  absl::StrAppend(&shown, target_key);
  return shown.substr(0, shown.find('?'));
}

}  // namespace escapement::handler
