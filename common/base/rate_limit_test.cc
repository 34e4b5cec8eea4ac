#include "common/base/rate_limit.h"

#include <cmath>
#include <deque>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace escapement {
namespace rate_limit_test {

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'800'000'000) + absl::Seconds(seconds);
}

TEST(RateLimitTest, ABurstThenTheRate) {
  RateLimit limit(10, 5);
  EXPECT_EQ(limit.Allowed(At(0)), 5u);
  EXPECT_EQ(limit.NextAt(At(0)), At(0));
  limit.Take(5, At(0));
  EXPECT_EQ(limit.Allowed(At(0)), 0u);
  EXPECT_EQ(limit.NextAt(At(0)), At(0.1));
  EXPECT_EQ(limit.Allowed(At(0.1) - absl::Nanoseconds(1)), 0u);
  EXPECT_EQ(limit.Allowed(At(0.1)), 1u);
  limit.Take(1, At(0.1));
  EXPECT_EQ(limit.Allowed(At(0.35)), 2u);
  EXPECT_EQ(limit.Allowed(At(100)), 5u);
}

TEST(RateLimitTest, WithoutALimitEverythingGoes) {
  for (double per_second : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    RateLimit limit(per_second, 0);
    limit.Take(1'000'000, At(0));
    EXPECT_EQ(limit.Allowed(At(0)), RateLimit::kUnlimited);
    EXPECT_EQ(limit.NextAt(At(0)), At(0));
  }
}

// At most burst + t × rate in any interval, and at least one less than that; across restarts.
TEST(RateLimitTest, NeverMoreThanBurstAndRateInAnyInterval) {
  for (int seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const double rate = std::exp2(static_cast<double>(random() % 24) - 6) * 1.1;
    const uint64_t burst = 1 + random() % 50;
    RateLimit limit(rate, burst);
    struct Taken {
      absl::Time time;
      uint64_t before;  // in all
    };
    std::deque<Taken> taken;
    absl::Time now = At(0);
    uint64_t sum = 0;
    for (int step = 0; step < 1000; ++step) {
      if (random() % 4 == 0) {
        now = limit.NextAt(now);
        ASSERT_GE(limit.Allowed(now), 1u);
      } else {
        now += absl::Seconds(static_cast<double>(random() % 1000) / 300 / rate);
      }
      if (random() % 50 == 0)
        limit = RateLimit(rate, burst, RateTimeOf(RateTimeMicros(limit.tat())));
      const uint64_t allowed = limit.Allowed(now);
      const uint64_t n = random() % 3 == 0 ? std::min<uint64_t>(1, allowed) : allowed;
      ASSERT_LE(allowed, burst);
      if (n == 0) continue;
      limit.Take(n, now);
      taken.push_back({now, sum});
      sum += n;
      for (const Taken& other : taken) {
        const double bound =
            static_cast<double>(burst) + absl::ToDoubleSeconds(now - other.time) * rate;
        ASSERT_LE(static_cast<double>(sum - other.before), bound + 1e-3);
      }
    }
  }
}

TEST(RateLimitTest, CallerThatTakesAllGetsTheRate) {
  for (double rate : {0.1, 3.0, 1000.0, 3e6}) {
    RateLimit limit(rate, 1);
    absl::Time now = At(0);
    for (int i = 0; i < 3000; ++i) {
      now = limit.NextAt(now);
      ASSERT_EQ(limit.Allowed(now), 1u);
      limit.Take(1, now);
    }
    EXPECT_NEAR(absl::ToDoubleSeconds(now - At(0)) * rate, 2999, 3);
  }
}

TEST(RateLimitTest, AClockThatGoesBackDelaysByNoMoreThanABurst) {
  RateLimit limit(2, 4);
  limit.Take(4, At(100'000));
  EXPECT_EQ(limit.Allowed(At(0)), 0u);
  EXPECT_EQ(limit.NextAt(At(0)), At(0.5));
  EXPECT_EQ(limit.Allowed(At(0.5)), 1u);
  EXPECT_EQ(limit.Allowed(At(2)), 4u);
}

TEST(RateLimitTest, AStoredTimeOfAStricterLimitDoesNotStarve) {
  RateLimit strict(0.0001, 1);
  strict.Take(1, At(0));
  RateLimit limit(10, 2, RateTimeOf(RateTimeMicros(strict.tat())));
  EXPECT_EQ(limit.NextAt(At(1)), At(1.1));
  EXPECT_EQ(limit.Allowed(At(1.1)), 1u);
}

TEST(RateLimitTest, ChangedLimitsKeepWhatIsTaken) {
  RateLimit limit(1, 10);
  limit.Take(8, At(0));
  limit.SetLimits(4, 10, At(2));  // 6 are still taken
  EXPECT_EQ(limit.Allowed(At(2)), 4u);
  EXPECT_EQ(limit.Allowed(At(3)), 8u);
  limit.SetLimits(0.001, 10, At(3));
  EXPECT_EQ(limit.Allowed(At(3)), 8u);
  limit.Take(8, At(3));
  limit.SetLimits(1, 2, At(3));
  EXPECT_EQ(limit.Allowed(At(3)), 0u);
  EXPECT_EQ(limit.NextAt(At(3)), At(4));
  limit.SetLimits(0, 0, At(3));
  EXPECT_EQ(limit.Allowed(At(3)), RateLimit::kUnlimited);
  limit.SetLimits(1, 2, At(10));
  EXPECT_EQ(limit.Allowed(At(10)), 2u);
}

TEST(RateLimitTest, TheSameLimitsAsReadAMomentAgoGiveNothingBack) {
  RateLimit limit(10, 5);
  limit.Take(5, At(1));
  limit.SetLimits(10, 5, At(0.9));
  EXPECT_EQ(limit.Allowed(At(1)), 0u);
  EXPECT_EQ(limit.NextAt(At(1)), At(1.1));
}

TEST(RateLimitTest, ExtremesAreSurvived) {
  for (double rate : {1e-300, 1e-9, 1e300, std::numeric_limits<double>::infinity()}) {
    for (uint64_t burst : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      for (absl::Time tat : {absl::InfinitePast(), At(0), absl::InfiniteFuture()}) {
        RateLimit limit(rate, burst, tat);
        const absl::Time now = limit.NextAt(At(0));
        EXPECT_GE(limit.Allowed(now), 1u) << rate << " " << burst;
        limit.Take(limit.Allowed(now), now);
        limit.SetLimits(5, 5, now);
        EXPECT_GE(limit.Allowed(now + absl::Seconds(1)), 4u);
      }
    }
  }
  EXPECT_EQ(RateTimeMicros(absl::InfinitePast()), 0);
  EXPECT_EQ(RateTimeOf(0), absl::InfinitePast());
  EXPECT_GE(RateTimeOf(RateTimeMicros(At(0) + absl::Nanoseconds(1))), At(0) + absl::Nanoseconds(1));
  EXPECT_EQ(RateTimeOf(RateTimeMicros(At(0))), At(0));
}

}  // namespace rate_limit_test
}  // namespace escapement
