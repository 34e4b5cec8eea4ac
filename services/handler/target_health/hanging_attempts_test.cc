#include "services/handler/target_health/hanging_attempts.h"

#include "gtest/gtest.h"

namespace escapement::handler {
namespace hanging_attempts_test {

constexpr absl::Duration kTimeout = absl::Seconds(10);

absl::Duration Millis(int64_t millis) { return absl::Milliseconds(millis); }

// Sends `good` attempts that are answered in a tenth of a second, and `hanging` ones; each second.
void Pass(HangingAttempts& attempts, int first, int last, int good, int hanging) {
  for (int second = first; second < last; ++second) {
    const absl::Duration now = absl::Seconds(second);
    attempts.OnSent(static_cast<uint64_t>(good + hanging), now);
    for (int i = 0; i < good; ++i) attempts.OnEnded(now, true, now + Millis(100));
    attempts.Free(kTimeout, now + Millis(100));
  }
}

TEST(HangingAttempts, AttemptsHangOnceTheyTakeLongerThanOthers) {
  HangingAttempts attempts;
  Pass(attempts, 0, 1, 100, 3);
  EXPECT_EQ(attempts.Free(kTimeout, Millis(900)), 0u);
  EXPECT_EQ(attempts.Free(kTimeout, Millis(1300)), 3u);
  attempts.OnEnded(absl::ZeroDuration(), false, Millis(1300));
  EXPECT_EQ(attempts.Free(kTimeout, Millis(1300)), 2u);
}

TEST(HangingAttempts, SlowTargetHasNoHangingAttempts) {
  HangingAttempts attempts;
  attempts.OnSent(10, Millis(0));
  for (int i = 0; i < 5; ++i) attempts.OnEnded(Millis(0), true, Millis(2000));
  EXPECT_EQ(attempts.Free(kTimeout, Millis(5900)), 0u);
  EXPECT_EQ(attempts.Free(kTimeout, Millis(6300)), 5u);
}

TEST(HangingAttempts, AsManyAreFreeAsHaveGoodResultsInOneTimeout) {
  HangingAttempts attempts;
  Pass(attempts, 0, 20, 2, 50);
  const uint64_t free = attempts.Free(kTimeout, absl::Seconds(21));
  EXPECT_GT(free, 0u);
  EXPECT_LE(free, 2u * 10 * 10) << "2 a tenth of a second, at most";
}

TEST(HangingAttempts, NoneIsFreeIfNothingIsAnsweredWell) {
  HangingAttempts attempts;
  attempts.OnSent(100, Millis(0));
  attempts.OnEnded(Millis(0), false, Millis(10));
  EXPECT_EQ(attempts.Free(kTimeout, absl::Seconds(5)), 0u);
  // Nor once the last good result is long ago.
  Pass(attempts, 6, 7, 100, 0);
  EXPECT_GT(attempts.Free(kTimeout, absl::Seconds(8)), 0u);
  EXPECT_EQ(attempts.Free(kTimeout, absl::Seconds(60)), 0u);
}

TEST(HangingAttempts, GoodAtOnceIsTheRateTimesTheTimeTaken) {
  HangingAttempts attempts;
  for (int i = 0; i < 100; ++i) {
    const absl::Duration now = Millis(100 * i);
    attempts.OnSent(10, now);
    if (i >= 5) {
      for (int j = 0; j < 10; ++j) attempts.OnEnded(now - Millis(500), true, now);
    }
    attempts.Free(kTimeout, now);
  }
  EXPECT_NEAR(attempts.good_at_once(), 50, 10);
}

}  // namespace hanging_attempts_test
}  // namespace escapement::handler
