#include "common/kv/store_clock.h"

#include "gtest/gtest.h"

namespace escapement::kv {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);

ClockReading At(absl::Duration boottime, absl::Duration wall_ahead = absl::ZeroDuration()) {
  return {boottime, kStart + boottime + wall_ahead};
}

TEST(StoreClock, FollowsASmallDisagreementByItsLargestSlew) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockReading later = At(absl::Seconds(100), absl::Milliseconds(900));
  EXPECT_EQ(clock.Now(later), kStart + absl::Seconds(100) + absl::Milliseconds(50));
  EXPECT_FALSE(clock.hold());
}

TEST(StoreClock, HoldsWhenTheWallClockLeapsAhead) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  EXPECT_EQ(clock.Now(At(absl::Seconds(10), absl::Hours(1))), kStart + absl::Seconds(10));
  EXPECT_TRUE(clock.hold());
  clock.Confirm(At(absl::Seconds(11), absl::Hours(1)));
  EXPECT_FALSE(clock.hold());
  EXPECT_EQ(clock.Now(At(absl::Seconds(11), absl::Hours(1))),
            kStart + absl::Seconds(11) + absl::Hours(1));
}

// A virtual machine stood still, or NTP has corrected the clock.
TEST(StoreClock, FollowsAStepOfMinutesOnceItHasLastedFiveSeconds) {
  for (const absl::Duration ahead :
       {absl::Milliseconds(1001), absl::Seconds(2), absl::Minutes(9)}) {
    StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
    for (int second = 10; second < 15; ++second) {
      EXPECT_EQ(clock.Now(At(absl::Seconds(second), ahead)), kStart + absl::Seconds(second));
      EXPECT_TRUE(clock.hold());
      EXPECT_EQ(clock.held_for(), absl::Seconds(second - 10));
    }
    EXPECT_EQ(clock.Now(At(absl::Seconds(15), ahead)), kStart + absl::Seconds(15) + ahead);
    EXPECT_FALSE(clock.hold());
    EXPECT_EQ(clock.steps(), 1u);
  }
}

TEST(StoreClock, DoesNotFollowAStepThatIsLongOrChanges) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  for (int second = 10; second < 100; ++second) {
    const absl::Duration ahead =
        second < 50 ? StoreClock::kStepMax + absl::Seconds(1) : absl::Seconds(2) * (second % 3 + 1);
    EXPECT_EQ(clock.Now(At(absl::Seconds(second), ahead)), kStart + absl::Seconds(second));
    EXPECT_TRUE(clock.hold());
  }
  EXPECT_EQ(clock.steps(), 0u);
}

TEST(StoreClock, FollowsAStepThatARestartFinds) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockRecord record = first.Record(At(absl::Seconds(9), absl::Seconds(2)));
  EXPECT_TRUE(record.hold);
  StoreClock second(record, "boot", At(absl::Seconds(12), absl::Seconds(2)));
  EXPECT_TRUE(second.hold());
  EXPECT_EQ(second.Now(At(absl::Seconds(17), absl::Seconds(2))), kStart + absl::Seconds(19));
  EXPECT_FALSE(second.hold());
}

TEST(StoreClock, HoldsNoLongerThanTheWallClockIsAhead) {
  for (const absl::Duration ahead : {absl::Milliseconds(1001), absl::Hours(1), absl::Hours(24)}) {
    StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
    clock.Now(At(absl::Seconds(10), ahead));
    EXPECT_TRUE(clock.hold()) << ahead;
    EXPECT_TRUE(clock.Record(At(absl::Seconds(10), ahead)).hold);
    EXPECT_EQ(clock.Now(At(absl::Seconds(11))), kStart + absl::Seconds(11)) << ahead;
    EXPECT_FALSE(clock.hold()) << ahead;
  }
}

TEST(StoreClock, KeepsItsPaceWhenTheWallClockIsSetBackAndIsDrawnBackOnceThatIsConfirmed) {
  for (const absl::Duration behind : {absl::Milliseconds(1001), absl::Hours(1), absl::Hours(24)}) {
    StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
    EXPECT_EQ(clock.Now(At(absl::Seconds(100), -behind)), kStart + absl::Seconds(100));
    EXPECT_FALSE(clock.hold());
    clock.Confirm(At(absl::Seconds(100), -behind));
    EXPECT_EQ(clock.Now(At(absl::Seconds(200), -behind)),
              kStart + absl::Seconds(200) - absl::Milliseconds(50));
  }
}

TEST(StoreClock, IsNotMovedByAWallClockThatWasSetWhileTheStoreWasDown) {
  for (const absl::Duration by : {absl::Hours(1), -absl::Hours(1), absl::Hours(24),
                                  -absl::Hours(24), absl::Seconds(2), -absl::Seconds(2)}) {
    StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
    const ClockRecord record = first.Record(At(absl::Seconds(9)));
    const ClockReading restart = At(absl::Seconds(12), by);
    StoreClock second(record, "boot", restart);
    EXPECT_EQ(second.Now(restart), kStart + absl::Seconds(12)) << by;
    EXPECT_EQ(second.hold(), by > absl::ZeroDuration()) << by;
  }
}

// Of a reboot nobody knows how long it took; but a month is not believed without a word.
TEST(StoreClock, BelievesTheWallClockAfterAReboot) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockRecord record = first.Record(At(absl::Seconds(100)));
  const ClockReading day = {absl::Seconds(1), kStart + absl::Hours(24)};
  StoreClock next_day(record, "next boot", day);
  EXPECT_EQ(next_day.Now(day), kStart + absl::Hours(24));
  EXPECT_FALSE(next_day.hold());
  const ClockReading year = {absl::Seconds(1), kStart + absl::Hours(24 * 365)};
  StoreClock next_year(record, "next boot", year);
  EXPECT_EQ(next_year.Now(year), record.store_time + StoreClock::kRecordInterval);
  EXPECT_TRUE(next_year.hold());
}

TEST(StoreClock, NeverGoesBackWhenTheWallClockDoes) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const absl::Time before = clock.Now(At(absl::Seconds(10)));
  EXPECT_GT(clock.Now(At(absl::Seconds(11), -absl::Hours(1))), before);
}

// Found by the simulation: a restart added 500 ppm of the time since the record for safety, and
// events were early.
TEST(StoreClock, GoesOnAfterARestartNeitherAheadNorBack) {
  for (const absl::Duration down : {absl::Milliseconds(3), absl::Seconds(10), absl::Hours(3)}) {
    StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
    const ClockRecord record =
        first.Record(At(absl::Microseconds(1'234'567) + absl::Nanoseconds(890)));
    const absl::Time given = first.Now(At(absl::Seconds(2)));
    const ClockReading restart = At(absl::Seconds(2) + down);
    StoreClock second(record, "boot", restart);
    EXPECT_GE(second.Now(restart), given) << down;
    EXPECT_LE(second.Now(restart), restart.wall) << down;
    EXPECT_GE(second.Now(restart), restart.wall - absl::Microseconds(2)) << down;
  }
}

TEST(StoreClock, DoesNotGoBackOverARestartWhileItIsSlewedForward) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  const absl::Duration ahead = absl::Milliseconds(500);
  const ClockRecord record = first.Record(At(absl::Seconds(1), ahead));
  const absl::Time given = first.Now(At(absl::Seconds(9), ahead));
  const ClockReading restart = At(absl::Seconds(9), ahead);
  StoreClock second(record, "boot", restart);
  EXPECT_GE(second.Now(restart), given);
}

TEST(StoreClock, DoesNotGoBackOverARebootWithAWallClockThatIsBehind) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockRecord record = first.Record(At(absl::Seconds(100)));
  const ClockReading reboot = {absl::Seconds(1), kStart};
  StoreClock second(record, "next boot", reboot);
  EXPECT_GE(second.Now(reboot), record.store_time + StoreClock::kRecordInterval);
}

}  // namespace
}  // namespace escapement::kv
