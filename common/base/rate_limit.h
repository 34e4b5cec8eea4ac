// RateLimit: at most `burst` grants at once, and `per_second` in the long run.
//
// The generic cell rate algorithm, in its form as virtual scheduling (ITU-T I.371, annex A). With
// T = 1 / per_second and τ = (burst − 1) × T: a grant at t conforms iff t ≥ TAT − τ; then
// TAT ← max(t, TAT) + T. So in any interval of length t there are at most burst + t × per_second
// grants. Its whole state is TAT, the theoretical arrival time. The token manager stores it with
// the policy.
//
// A clock that goes back, or a stored TAT of stricter limits, delays grants by no more than a full
// burst would have. Pure; time may be any.

#ifndef COMMON_BASE_RATE_LIMIT_H_
#define COMMON_BASE_RATE_LIMIT_H_

#include <cstdint>

#include "absl/time/time.h"

namespace escapement {

class RateLimit {
 public:
  // The result of Allowed without a limit.
  static constexpr uint64_t kUnlimited = ~uint64_t{0};

  RateLimit() = default;  // no limit
  // per_second ≤ 0 (or no number): no limit. burst 0 counts as 1. `tat` as stored; InfinitePast:
  // never used.
  RateLimit(double per_second, uint64_t burst, absl::Time tat = absl::InfinitePast());

  // Permits that were taken and have not come back by `now` stay taken (with a smaller burst, at
  // most all of it).
  void SetLimits(double per_second, uint64_t burst, absl::Time now);

  // How many grants conform at `now`.
  uint64_t Allowed(absl::Time now);
  // n grants are made at `now`; n ≤ Allowed(now). More are counted as that many.
  void Take(uint64_t n, absl::Time now);
  // The first instant ≥ now at which a grant conforms: there Allowed ≥ 1.
  absl::Time NextAt(absl::Time now);

  // To be stored: PolicyCountsRecord.rate_time_micros (rounded up: RateTimeMicros).
  absl::Time tat() const { return tat_; }
  bool limited() const { return per_second_ > 0; }

 private:
  // The time in which n grants come back; rounded up, so that no rounding adds to the rate.
  absl::Duration TimeOf(uint64_t n) const;
  // TAT is never further ahead than a full burst.
  void Clamp(absl::Time now);

  double per_second_ = 0;
  uint64_t burst_ = 1;
  absl::Time tat_ = absl::InfinitePast();
};

// TAT as it is stored: rounded up; 0 if never used. And back.
int64_t RateTimeMicros(absl::Time tat);
absl::Time RateTimeOf(int64_t micros);

}  // namespace escapement

#endif  // COMMON_BASE_RATE_LIMIT_H_
