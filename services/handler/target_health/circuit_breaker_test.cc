#include "gtest/gtest.h"
#include "services/handler/target_health/target_use.h"

namespace escapement::handler {
namespace circuit_breaker_test {

using State = CircuitBreaker::State;

absl::Duration At(double seconds) { return absl::Seconds(seconds); }

// `count` bad results, one every 10 ms from `begin` on. Returns the time of the last one.
absl::Duration Fail(CircuitBreaker& breaker, int count, absl::Duration begin) {
  absl::Duration now = begin;
  for (int i = 0; i < count; ++i) {
    now = begin + i * absl::Milliseconds(10);
    breaker.OnResult(false, now, now);
  }
  return now;
}

TEST(CircuitBreaker, TwentyBadResultsWithoutAGoodOneOpenIt) {
  CircuitBreaker breaker;
  const absl::Duration now = Fail(breaker, 19, At(100));
  EXPECT_EQ(breaker.state(now), State::kClosed);
  EXPECT_EQ(breaker.Allowed(now), CircuitBreaker::kAnyNumber);
  EXPECT_TRUE(breaker.OnResult(false, now, now));
  EXPECT_EQ(breaker.state(now), State::kOpen);
  EXPECT_EQ(breaker.Allowed(now), 0u);
  EXPECT_EQ(breaker.down_since(), now);
  EXPECT_EQ(breaker.open_until(), now + absl::Seconds(1));
}

TEST(CircuitBreaker, BadResultsOverMoreThanTenSecondsDoNotOpenIt) {
  CircuitBreaker breaker;
  // 19 intervals of 530 ms are 10.07 s.
  for (int i = 0; i < 200; ++i) {
    const absl::Duration now = i * absl::Milliseconds(530);
    EXPECT_FALSE(breaker.OnResult(false, now, now)) << i;
  }
  CircuitBreaker faster;
  int opened_at = -1;
  for (int i = 0; i < 30 && opened_at < 0; ++i) {
    const absl::Duration now = i * absl::Milliseconds(520);  // 9.88 s
    if (faster.OnResult(false, now, now)) opened_at = i;
  }
  EXPECT_EQ(opened_at, 19);
}

TEST(CircuitBreaker, OneGoodResultInTheWindowKeepsItClosed) {
  CircuitBreaker breaker;
  breaker.OnResult(true, At(0), At(0));
  for (int i = 1; i <= 1000; ++i) EXPECT_FALSE(breaker.OnResult(false, At(0), i * At(0.01)));
  // The good result is 10 s old, and still in the window. Then it leaves.
  EXPECT_EQ(breaker.state(At(10)), State::kClosed);
  EXPECT_TRUE(breaker.OnResult(false, At(0), At(10.01)));
}

TEST(CircuitBreaker, HalfOpenAllowsOneProbe) {
  CircuitBreaker breaker;
  const absl::Duration opened = Fail(breaker, 20, At(5));
  const absl::Duration now = opened + absl::Seconds(1);
  EXPECT_EQ(breaker.state(now - absl::Milliseconds(1)), State::kOpen);
  ASSERT_EQ(breaker.state(now), State::kHalfOpen);
  EXPECT_EQ(breaker.Allowed(now), 1u);
  breaker.OnReserved(1, 0, now);
  EXPECT_EQ(breaker.Allowed(now + absl::Hours(1)), 0u) << "the probe is out";
}

TEST(CircuitBreaker, GoodProbeClosesIt) {
  CircuitBreaker breaker;
  const absl::Duration now = Fail(breaker, 20, At(5)) + absl::Seconds(1);
  breaker.OnReserved(1, 0, now);
  EXPECT_FALSE(breaker.OnResult(true, now, now));
  EXPECT_EQ(breaker.state(now), State::kClosed);
  EXPECT_FALSE(breaker.down_since().has_value());
  // The next outage begins at one second again, after another window.
  EXPECT_EQ(Fail(breaker, 1000, now + absl::Milliseconds(1)), now + absl::Milliseconds(9991));
  EXPECT_EQ(breaker.state(now + absl::Milliseconds(9991)), State::kClosed);
  const absl::Duration again = Fail(breaker, 20, now + absl::Seconds(11));
  EXPECT_EQ(breaker.open_until() - *breaker.down_since(), absl::Seconds(1));
  EXPECT_EQ(breaker.state(again), State::kOpen);
}

TEST(CircuitBreaker, EachBadProbeDoublesTheTimeUpToAMinute) {
  CircuitBreaker breaker;
  const absl::Duration down = Fail(breaker, 20, At(5));
  absl::Duration now = down;
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(breaker.open_until(), now + absl::Seconds(seconds));
    now = breaker.open_until();
    breaker.OnReserved(1, 0, now);
    EXPECT_TRUE(breaker.OnResult(false, now, now));
  }
  EXPECT_EQ(breaker.down_since(), down) << "it is one outage";
}

TEST(CircuitBreaker, LateResultsOfEarlierAttemptsAreNoProbes) {
  CircuitBreaker breaker;
  const absl::Duration opened = Fail(breaker, 20, At(5));
  // While it is open.
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(breaker.OnResult(false, At(5), opened));
  EXPECT_EQ(breaker.open_until(), opened + absl::Seconds(1));
  // While the probe is out.
  const absl::Duration now = opened + absl::Seconds(1);
  breaker.OnReserved(1, 0, now);
  EXPECT_FALSE(breaker.OnResult(false, At(5), now));
  EXPECT_EQ(breaker.state(now), State::kHalfOpen);
  EXPECT_EQ(breaker.Allowed(now), 0u);
}

TEST(CircuitBreaker, LateGoodResultClosesIt) {
  CircuitBreaker breaker;
  const absl::Duration opened = Fail(breaker, 20, At(5));
  EXPECT_FALSE(breaker.OnResult(true, At(4), opened));
  EXPECT_EQ(breaker.Allowed(opened), CircuitBreaker::kAnyNumber);
}

TEST(CircuitBreaker, ProbeThatWasNotSentMakesRoomForAnother) {
  CircuitBreaker breaker;
  const absl::Duration now = Fail(breaker, 20, At(5)) + absl::Seconds(1);
  breaker.OnReserved(1, 0, now);
  breaker.OnUnreserved(1);
  EXPECT_EQ(breaker.Allowed(now), 1u);
  breaker.OnReserved(1, 0, now);
  breaker.OnNoResult(At(5));
  EXPECT_EQ(breaker.Allowed(now), 0u) << "an earlier attempt";
  breaker.OnNoResult(now);
  EXPECT_EQ(breaker.Allowed(now), 1u);
}

TEST(CircuitBreaker, EarlierReservationsThatEndMakeNoRoomForAnotherProbe) {
  CircuitBreaker breaker;
  breaker.OnReserved(5, 0, At(1));
  const absl::Duration now = Fail(breaker, 20, At(5)) + absl::Seconds(1);
  breaker.OnReserved(1, 5, now);
  breaker.OnUnreserved(2);
  EXPECT_EQ(breaker.Allowed(now), 0u);
  breaker.OnUnreserved(3);
  EXPECT_EQ(breaker.Allowed(now), 0u) << "the probe is still out";
  breaker.OnReserved(2, 1, now);  // a takeover asks for no room
  breaker.OnUnreserved(2);
  EXPECT_EQ(breaker.Allowed(now), 0u);
  breaker.OnUnreserved(1);
  EXPECT_EQ(breaker.Allowed(now), 1u) << "none is left, so the probe was among them";
}

}  // namespace circuit_breaker_test
}  // namespace escapement::handler
