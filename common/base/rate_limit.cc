#include "common/base/rate_limit.h"

#include <algorithm>
#include <cmath>

#include "common/base/proto_time.h"

namespace escapement {
namespace {

// The resolution of absl::Duration.
constexpr double kTicksPerSecond = 4e9;
absl::Duration Ticks(int64_t n) { return absl::Nanoseconds(1) / 4 * n; }
// Slower than that is as slow as that; keeps sums finite.
constexpr double kSecondsMax = 1e9;  // 31 years
// Rounding may leave a quotient this much below a whole number.
constexpr double kEpsilon = 1e-6;

}  // namespace

RateLimit::RateLimit(double per_second, uint64_t burst, absl::Time tat)
    : per_second_(per_second > 0 ? per_second : 0),
      burst_(std::max<uint64_t>(burst, 1)),
      tat_(tat) {}

absl::Duration RateLimit::TimeOf(uint64_t n) const {
  const double seconds = static_cast<double>(n) / per_second_;
  if (!(seconds < kSecondsMax)) return absl::Seconds(kSecondsMax);
  return Ticks(static_cast<int64_t>(std::ceil(seconds * kTicksPerSecond)));
}

void RateLimit::Clamp(absl::Time now) { tat_ = std::min(tat_, now + TimeOf(burst_)); }

void RateLimit::SetLimits(double per_second, uint64_t burst, absl::Time now) {
  // The same again, as of whatever time, gives nothing back.
  if (limited() && per_second == per_second_ && std::max<uint64_t>(burst, 1) == burst_) return;
  double taken = 0;
  if (limited() && tat_ > now) {
    Clamp(now);
    taken = absl::ToDoubleSeconds(tat_ - now) * per_second_;
  }
  const absl::Time former = tat_;
  *this = RateLimit(per_second, burst, former);
  if (!limited() || tat_ <= now) return;
  tat_ = now + TimeOf(1) * std::min(taken, static_cast<double>(burst_));
}

uint64_t RateLimit::Allowed(absl::Time now) {
  if (!limited()) return kUnlimited;
  if (tat_ <= now) return burst_;
  Clamp(now);
  const absl::Duration tolerance = TimeOf(burst_ - 1);
  const absl::Duration slack = now + tolerance - tat_;
  if (slack < absl::ZeroDuration()) return 0;
  const double more = std::floor(absl::ToDoubleSeconds(slack) * per_second_ + kEpsilon);
  return std::min(burst_, static_cast<uint64_t>(std::min(more, static_cast<double>(burst_))) + 1);
}

void RateLimit::Take(uint64_t n, absl::Time now) {
  if (!limited() || n == 0) return;
  tat_ = std::max(tat_, now) + TimeOf(std::min(n, burst_));
  Clamp(now);
}

absl::Time RateLimit::NextAt(absl::Time now) {
  if (!limited() || tat_ <= now) return now;
  Clamp(now);
  return std::max(now, tat_ - TimeOf(burst_ - 1));
}

int64_t RateTimeMicros(absl::Time tat) {
  if (tat <= absl::UnixEpoch()) return 0;
  return ToMicros(tat + absl::Microseconds(1) - Ticks(1));
}

absl::Time RateTimeOf(int64_t micros) {
  return micros <= 0 ? absl::InfinitePast() : FromMicros(micros);
}

}  // namespace escapement
