#include "common/kv/engine/store_clock.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace store_clock_test {

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);

ClockReading At(absl::Duration boottime, absl::Duration wall_ahead = absl::ZeroDuration()) {
  return {boottime, kStart + boottime + wall_ahead};
}

// Reads the clocks at each second of [from, to].
void Pass(StoreClock& clock, int from, int to, absl::Duration wall_ahead) {
  for (int second = from; second <= to; ++second) clock.Now(At(absl::Seconds(second), wall_ahead));
}

// A replica on another machine, whose monotonic clock tells nothing about the record.
TEST(StoreClock, TakeoverElsewhereGoesOnFromTheKnownAgeOfTheRecord) {
  const auto begin = [](absl::Duration wall_after_record) {
    ClockRecord record;
    record.store_time = kStart;
    record.boottime = absl::Hours(9);
    record.boot_id = "former leader";
    const ClockReading now = {absl::Seconds(50), kStart + wall_after_record};
    StoreClock clock(record, "successor", now, StoreClock::kSlowLeadMin, absl::Seconds(3));
    return clock.Now(now) - kStart;
  };
  // The wall clock fits: it tells the real age.
  EXPECT_EQ(begin(absl::Seconds(3.2)), absl::Seconds(3.2));
  EXPECT_EQ(begin(absl::Seconds(4)), absl::Seconds(4));
  // A wall clock behind never takes store time back, and one far ahead is a step.
  EXPECT_EQ(begin(absl::Seconds(2.5)), absl::Seconds(3));
  EXPECT_EQ(begin(absl::Seconds(9)), absl::Seconds(3));
}

// All replicas were away for 30 s. Clients have counted on, and the wall clock is behind.
TEST(StoreClock, GoesForwardToItsClientsIfTheRecordsAgeIsUnknown) {
  ClockRecord record;
  record.store_time = kStart;
  record.boot_id = "former leader";
  const ClockReading now = {absl::Seconds(50), kStart + absl::Seconds(28)};
  for (const std::optional<absl::Duration> age :
       {std::optional(absl::Seconds(3)), std::optional<absl::Duration>()}) {
    StoreClock clock(record, "successor", now, StoreClock::kSlowLeadMin, age);
    EXPECT_LT(clock.Now(now), kStart + absl::Seconds(11));
    EXPECT_TRUE(clock.hold());
    EXPECT_TRUE(clock.AdvanceTo(kStart + absl::Seconds(29), now));
    EXPECT_EQ(clock.Now(now), kStart + absl::Seconds(29));
    EXPECT_FALSE(clock.hold());
    EXPECT_EQ(clock.steps(), 0u);
    // A client that is behind changes nothing.
    EXPECT_FALSE(clock.AdvanceTo(kStart + absl::Seconds(28), now));
    EXPECT_FALSE(clock.AdvanceTo(absl::InfinitePast(), now));
    EXPECT_EQ(clock.Now(now), kStart + absl::Seconds(29));
  }
}

TEST(StoreClock, ClientsMoveStoreTimeOnlyAtFirstAndOnlySoFar) {
  ClockRecord record;
  record.store_time = kStart;
  record.boot_id = "former leader";
  const ClockReading now = At(absl::Seconds(50));
  StoreClock clock(record, "successor", now, StoreClock::kSlowLeadMin, absl::Seconds(3));
  EXPECT_FALSE(clock.AdvanceTo(kStart + absl::Seconds(4) + StoreClock::kStepMax, now));
  EXPECT_TRUE(clock.AdvanceTo(kStart + absl::Seconds(30), now));
  const ClockReading late = At(absl::Seconds(51) + StoreClock::kClientsCountFor);
  EXPECT_FALSE(clock.AdvanceTo(clock.Now(late) + absl::Seconds(1), late));
}

TEST(StoreClock, ClientsDoNotMoveAStoreTimeThatIsKnown) {
  const auto advances = [](std::optional<ClockRecord> record) {
    const ClockReading now = At(absl::Seconds(50));
    StoreClock clock(std::move(record), "boot", now);
    return clock.AdvanceTo(clock.Now(now) + absl::Milliseconds(1), now);
  };
  EXPECT_FALSE(advances(std::nullopt));
  ClockRecord record;
  record.store_time = kStart;
  record.boottime = absl::Seconds(40);
  record.boot_id = "boot";
  EXPECT_FALSE(advances(record));
}

TEST(StoreClock, FollowsASmallDisagreementByItsLargestSlew) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockReading later = At(absl::Seconds(100), absl::Milliseconds(900));
  EXPECT_EQ(clock.Now(later), kStart + absl::Seconds(100) + absl::Milliseconds(50));
  EXPECT_FALSE(clock.hold());
}

TEST(StoreClock, HoldsWhenTheWallClockStepsAhead) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  EXPECT_EQ(clock.Now(At(absl::Seconds(10), absl::Hours(1))), kStart + absl::Seconds(10));
  EXPECT_TRUE(clock.hold());
  clock.Confirm(At(absl::Seconds(11), absl::Hours(1)));
  EXPECT_FALSE(clock.hold());
  EXPECT_EQ(clock.Now(At(absl::Seconds(11), absl::Hours(1))),
            kStart + absl::Seconds(11) + absl::Hours(1));
}

// For example after a pause of a virtual machine, or a correction by NTP.
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

TEST(StoreClock, DoesNotFollowALargeOrChangingStep) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  for (int second = 10; second < 100; ++second) {
    const absl::Duration ahead =
        second < 50 ? StoreClock::kStepMax + absl::Seconds(1) : absl::Seconds(2) * (second % 3 + 1);
    EXPECT_EQ(clock.Now(At(absl::Seconds(second), ahead)), kStart + absl::Seconds(second));
    EXPECT_TRUE(clock.hold());
  }
  EXPECT_EQ(clock.steps(), 0u);
}

// Two readings far apart do not tell what the wall clock showed between them.
TEST(StoreClock, FollowsAStepOnlyIfItWasReadThroughout) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const absl::Duration ahead = absl::Seconds(2);
  for (const int second : {10, 11, 14, 15, 18}) clock.Now(At(absl::Seconds(second), ahead));
  EXPECT_TRUE(clock.hold());
  for (const int second : {20, 22}) clock.Now(At(absl::Seconds(second), ahead));
  EXPECT_TRUE(clock.hold());
  clock.Now(At(absl::Seconds(23), ahead));
  EXPECT_FALSE(clock.hold());
}

TEST(StoreClock, FollowsAStepThatARestartFinds) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockRecord record = first.Record(At(absl::Seconds(9), absl::Seconds(2)));
  EXPECT_TRUE(record.hold);
  StoreClock second(record, "boot", At(absl::Seconds(12), absl::Seconds(2)));
  Pass(second, 12, 16, absl::Seconds(2));
  EXPECT_TRUE(second.hold());
  EXPECT_EQ(second.Now(At(absl::Seconds(17), absl::Seconds(2))), kStart + absl::Seconds(19));
  EXPECT_FALSE(second.hold());
}

// A step of an hour, forward or back, is followed only if the kernel calls its clock synchronised
// and no other machine disagrees.
TEST(StoreClock, FollowsALargeStepWithEvidence) {
  for (const absl::Duration step : {absl::Hours(1), -absl::Hours(1)}) {
    for (const bool synchronised : {false, true}) {
      for (const bool host_agrees : {false, true}) {
        StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
        for (int second = 10; second <= 15; ++second) {
          ClockReading now = At(absl::Seconds(second), step);
          now.synchronised = synchronised;
          clock.NoteHost({"boot", kStart}, now);
          clock.NoteHost({"other", host_agrees ? now.wall : now.wall - step}, now);
          clock.Now(now);
          EXPECT_EQ(clock.hold(),
                    step > absl::ZeroDuration() && (second < 15 || !synchronised || !host_agrees));
        }
        const bool followed = synchronised && host_agrees;
        EXPECT_EQ(clock.steps(), followed && step > absl::ZeroDuration() ? 1u : 0u);
        EXPECT_EQ(clock.pace().slow_from != absl::InfiniteFuture(),
                  followed && step < absl::ZeroDuration());
        EXPECT_EQ(clock.State().hosts, 1u);
        EXPECT_EQ(clock.State().hosts_disagree, host_agrees ? 0u : 1u);
      }
    }
  }
}

// `agree` of `hosts` other machines say that store time is right, the others that `step` is.
TEST(StoreClock, FollowsNoStepThatMostOfAtLeastTwoMachinesDeny) {
  for (const absl::Duration step :
       {absl::Seconds(2), -absl::Seconds(2), absl::Hours(1), -absl::Hours(1)}) {
    for (const auto& [hosts, agree] : {std::pair(1, 1), {2, 0}, {2, 1}, {2, 2}, {3, 1}, {3, 2}}) {
      SCOPED_TRACE(absl::StrCat(absl::FormatDuration(step), " ", agree, " of ", hosts));
      StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
      const auto follows = [&clock] {
        return clock.steps() == 1 || clock.pace().slow_from != absl::InfiniteFuture();
      };
      const bool denied = hosts >= 2 && 2 * agree > hosts;
      bool followed = false;
      for (int second = 1; second <= 30; ++second) {
        ClockReading now = At(absl::Seconds(second), step);
        now.synchronised = true;
        for (int host = 0; host < hosts; ++host)
          clock.NoteHost({absl::StrCat(host), host < agree ? now.wall - step : now.wall}, now);
        const absl::Time time = clock.Now(now);
        followed |= follows();
        if (!denied) continue;
        EXPECT_EQ(time, kStart + absl::Seconds(second));
        EXPECT_FALSE(clock.hold());
      }
      EXPECT_EQ(followed,
                !denied && (absl::AbsDuration(step) <= StoreClock::kStepMax || agree == 0));
      if (!denied) continue;
      clock.Confirm(At(absl::Seconds(30), step));  // an operator knows better
      EXPECT_TRUE(follows());
    }
  }
}

// Else a short cut between the machines would let a wrong clock through.
TEST(StoreClock, ADeniedStepNeedsAMachineThatAgreesWithIt) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const absl::Duration step = absl::Seconds(2);
  for (int second = 1; second <= 60; ++second) {
    const ClockReading now = At(absl::Seconds(second), step);
    if (second <= 10) {
      clock.NoteHost({"a", now.wall - step}, now);
      clock.NoteHost({"b", now.wall - step}, now);
    }
    if (second >= 50) clock.NoteHost({"c", now.wall}, now);
    clock.Now(now);
    EXPECT_EQ(clock.steps(), second < 50 ? 0u : 1u) << second;
    EXPECT_FALSE(clock.hold());
  }
}

// The others may be nearer to the wall clock than to store time.
TEST(StoreClock, MachinesThatAgreeWithBothClocksDenyNothing) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const absl::Duration step = absl::Milliseconds(1200);
  for (int second = 1; second <= 10; ++second) {
    const ClockReading now = At(absl::Seconds(second), step);
    for (const char* host : {"a", "b"})
      clock.NoteHost({host, now.wall - absl::Milliseconds(500)}, now);
    clock.Now(now);
  }
  EXPECT_EQ(clock.steps(), 1u);
}

TEST(StoreClock, HoldEndsWhenTheWallClockIsNoLongerAhead) {
  for (const absl::Duration ahead : {absl::Milliseconds(1001), absl::Hours(1), absl::Hours(24)}) {
    StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
    clock.Now(At(absl::Seconds(10), ahead));
    EXPECT_TRUE(clock.hold()) << ahead;
    EXPECT_TRUE(clock.Record(At(absl::Seconds(10), ahead)).hold);
    EXPECT_EQ(clock.Now(At(absl::Seconds(11))), kStart + absl::Seconds(11)) << ahead;
    EXPECT_FALSE(clock.hold()) << ahead;
  }
}

TEST(StoreClock, PassesAtHalfPaceUntilAWallClockThatWasSetBackHasCaughtUp) {
  for (const absl::Duration behind : {absl::Milliseconds(1'500), absl::Seconds(10)}) {
    StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()), absl::Seconds(7));
    Pass(clock, 1, 14, -behind);
    EXPECT_EQ(clock.pace().slow_from, kStart + absl::Seconds(6 + 7))
        << "followed at 6 s, said 7 s ahead";
    absl::Time last = clock.State().store_time;
    EXPECT_EQ(last, kStart + absl::Seconds(13) + absl::Milliseconds(500));
    for (int second = 15; second < 40; ++second) {
      const absl::Time time = clock.Now(At(absl::Seconds(second), -behind));
      EXPECT_FALSE(clock.hold());
      EXPECT_GE(time - last, absl::Milliseconds(500));
      EXPECT_LE(time - last, absl::Milliseconds(1'000));
      EXPECT_GE(time, kStart + absl::Seconds(second) - behind);
      last = time;
    }
    EXPECT_EQ(last, kStart + absl::Seconds(39) - behind);
    EXPECT_EQ(clock.pace().slow_from, absl::InfiniteFuture());
    EXPECT_EQ(clock.steps(), 0u);
  }
}

TEST(StoreClock, ReportsItsLagBehindFullPaceAlsoAfterARestart) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  Pass(first, 1, 25, -absl::Minutes(1));
  EXPECT_EQ(first.State().store_time + first.pace().slowed, kStart + absl::Seconds(25));
  EXPECT_EQ(first.pace().slowed, absl::Seconds(7));
  const ClockRecord record = first.Record(At(absl::Seconds(25), -absl::Minutes(1)));
  Pass(first, 26, 29, -absl::Minutes(1));
  const auto read = DecodeClockRecord(EncodeClockRecord(record));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->boot_id, "boot");
  StoreClock second(*read, "boot", At(absl::Seconds(30), -absl::Minutes(1)));
  EXPECT_EQ(second.State().store_time + second.pace().slowed, kStart + absl::Seconds(30));
  EXPECT_GE(second.State().store_time, first.State().store_time);
}

TEST(StoreClock, KeepsItsPaceWhileAWallClockBehindKeepsChanging) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  for (int second = 1; second < 60; ++second) {
    EXPECT_EQ(clock.Now(At(absl::Seconds(second), -absl::Seconds(2 + second % 3))),
              kStart + absl::Seconds(second));
    EXPECT_EQ(clock.pace().slow_from, absl::InfiniteFuture());
    EXPECT_FALSE(clock.hold());
  }
}

TEST(StoreClock, EndsTheSlowPhaseWhenTheWallClockIsCorrected) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  Pass(clock, 1, 21, -absl::Minutes(1));
  EXPECT_NE(clock.pace().slow_from, absl::InfiniteFuture());
  const absl::Time slowed = clock.State().store_time;  // half of the time after 11 s
  EXPECT_EQ(slowed, kStart + absl::Seconds(16));
  clock.Now(At(absl::Seconds(22)));  // the wall clock is now the 5 s ahead of store time
  EXPECT_EQ(clock.pace().slow_from, absl::InfiniteFuture());
  EXPECT_TRUE(clock.hold());
  Pass(clock, 23, 27, absl::ZeroDuration());
  EXPECT_EQ(clock.State().store_time, kStart + absl::Seconds(27));
}

TEST(StoreClock, KeepsItsPaceAfterALargeStepBackUntilItIsConfirmed) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  Pass(clock, 1, 100, -absl::Hours(1));
  EXPECT_FALSE(clock.hold());
  EXPECT_EQ(clock.pace().slow_from, absl::InfiniteFuture());
  EXPECT_EQ(clock.State().store_time, kStart + absl::Seconds(100));
  clock.Confirm(At(absl::Seconds(100), -absl::Hours(1)));
  EXPECT_EQ(clock.pace().slow_from, kStart + absl::Seconds(105));
  Pass(clock, 101, 205, -absl::Hours(1));
  EXPECT_EQ(clock.State().store_time, kStart + absl::Seconds(155));
  // A new step needs a new decision.
  clock.Now(At(absl::Seconds(206), -absl::Hours(2)));
  EXPECT_EQ(clock.pace().slow_from, absl::InfiniteFuture());
}

TEST(StoreClock, ConfirmingAClockThatAgreesDoesNothing) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  clock.Confirm(At(absl::Seconds(1), absl::Milliseconds(900)));
  EXPECT_EQ(clock.steps(), 0u);
  EXPECT_LT(clock.State().store_time, kStart + absl::Milliseconds(1'001));
}

TEST(StoreClock, IgnoresAWallClockThatWasSetWhileTheStoreWasDown) {
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

// The downtime of the machine is unknown, so a difference of its wall clock is judged like any
// step.
TEST(StoreClock, JudgesTheWallClockAfterARebootAsAnyStep) {
  StoreClock first(std::nullopt, "boot", At(absl::ZeroDuration()));
  const ClockRecord record = first.Record(At(absl::Seconds(100)));
  for (const absl::Duration down : {absl::Minutes(5), absl::Hours(24), absl::Hours(24 * 365)}) {
    for (const bool synchronised : {false, true}) {
      const absl::Time wall = kStart + absl::Seconds(100) + down;
      StoreClock next(record, "next boot", {absl::Seconds(1), wall, synchronised});
      EXPECT_TRUE(next.hold());
      EXPECT_EQ(next.State().store_time, record.store_time + StoreClock::kRecordInterval);
      for (int second = 1; second <= 5; ++second) {
        next.Now({absl::Seconds(1 + second), wall + absl::Seconds(second), synchronised});
      }
      const bool followed = synchronised || down <= StoreClock::kStepMax;
      EXPECT_EQ(next.hold(), !followed) << down;
      EXPECT_EQ(next.State().store_time == wall + absl::Seconds(5), followed) << down;
    }
  }
}

TEST(StoreClock, NeverGoesBackWhenTheWallClockDoes) {
  StoreClock clock(std::nullopt, "boot", At(absl::ZeroDuration()));
  const absl::Time before = clock.Now(At(absl::Seconds(10)));
  EXPECT_GT(clock.Now(At(absl::Seconds(11), -absl::Hours(1))), before);
}

// Found by the simulation: a restart added 500 ppm of the time since the record for safety, so
// events were early.
TEST(StoreClock, ContinuesAfterARestartNeitherAheadNorBack) {
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

}  // namespace store_clock_test
}  // namespace escapement::kv
