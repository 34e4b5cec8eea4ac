// Times of the monotonic clock, for timeouts of transports.

#ifndef SERVICES_HANDLER_DELIVERY_MONOTONIC_TIME_H_
#define SERVICES_HANDLER_DELIVERY_MONOTONIC_TIME_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace escapement::handler {

// Microseconds since some moment in the past.
using MonotonicMicros = int64_t;
inline constexpr MonotonicMicros kNeverMicros = std::numeric_limits<int64_t>::max();

inline MonotonicMicros MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A timeout in microseconds, from 0 to 20 days: libcurl counts milliseconds in an int.
inline MonotonicMicros TimeoutMicros(absl::Duration timeout) {
  return absl::ToInt64Microseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(20 * 24)));
}

// Milliseconds to wait until `at`, rounded up; from 0 to a minute.
inline int PollMillis(MonotonicMicros at) {
  constexpr MonotonicMicros kMax = 60'000'000;
  const MonotonicMicros now = MonotonicNow();
  return static_cast<int>(at <= now ? 0 : (std::min(at - now, kMax) + 999) / 1000);
}

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_MONOTONIC_TIME_H_
