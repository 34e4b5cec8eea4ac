#include "services/handler/target_health/target_pace.h"

#include <string>

#include "common/base/hash.h"
#include "common/base/uid.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace target_pace_test {

constexpr absl::Duration kStart = absl::Seconds(100);

absl::Duration At(double seconds) { return kStart + absl::Seconds(seconds); }

TEST(TargetPace, FirstEventsDoubleWithEachRoundTrip) {
  TargetPace pace(4);
  uint64_t out_max = 4;
  double now = 0;
  for (; out_max < kSmallStartMax; out_max *= 2, now += 0.01) {
    EXPECT_EQ(pace.Allowed(0, At(now)), out_max);
    EXPECT_EQ(pace.Allowed(out_max - 1, At(now)), 1u);
    EXPECT_EQ(pace.Allowed(out_max, At(now)), 0u);
    pace.OnSent(At(now));
    for (uint64_t i = 0; i < out_max; ++i) pace.OnAnswered(At(now));
  }
  EXPECT_EQ(pace.Allowed(100'000, At(now)), TargetPace::kAnyNumber);
}

TEST(TargetPace, SilentTargetGetsItsRoomAfterAShortWait) {
  TargetPace pace(4);
  EXPECT_EQ(pace.Allowed(4, At(3600)), 0u) << "nothing was sent, so nothing is late";
  pace.OnSent(At(3600));
  EXPECT_EQ(pace.Allowed(4, At(3600.249)), 0u);
  pace.OnSent(At(3600.249));
  EXPECT_EQ(pace.Allowed(4, At(3600.25)), TargetPace::kAnyNumber);
}

TEST(TargetPace, KnownTargetHasNoLimit) {
  TargetPace pace;
  EXPECT_EQ(pace.Allowed(1000, At(0)), TargetPace::kAnyNumber);
  EXPECT_FALSE(pace.IsPaused(At(0)));
  EXPECT_FALSE(pace.paused_since().has_value());
}

TEST(TargetPace, PauseBeginsAndEndsWithItsTimeAndThenOneGoes) {
  TargetPace pace;
  EXPECT_TRUE(pace.OnPauseAsked(absl::Seconds(30), At(0)));
  EXPECT_TRUE(pace.IsPaused(At(29.9)));
  EXPECT_EQ(pace.Allowed(0, At(29.9)), 0u);
  EXPECT_FALSE(pace.IsPaused(At(30)));
  EXPECT_EQ(pace.Allowed(0, At(30)), 1u);
  pace.OnReserved(At(30));
  EXPECT_EQ(pace.Allowed(1, At(30)), 0u);
  pace.OnAnswered(At(30));
  EXPECT_EQ(pace.Allowed(0, At(31)), 2u);
  EXPECT_TRUE(pace.limited_by_pause());
  EXPECT_FALSE(pace.paused_since().has_value()) << "it has answered";
  for (uint64_t i = 2; i < kSmallStartMax; ++i) pace.OnAnswered(At(31));
  EXPECT_FALSE(pace.limited_by_pause());
  EXPECT_EQ(pace.Allowed(1000, At(32)), TargetPace::kAnyNumber);
}

TEST(TargetPace, AnswersToAttemptsInTheAirNeitherEndNorShortenAPause) {
  TargetPace pace;
  EXPECT_TRUE(pace.OnPauseAsked(absl::Seconds(30), At(0)));
  EXPECT_FALSE(pace.OnPauseAsked(absl::Seconds(10), At(1)));
  EXPECT_EQ(pace.until(), At(30));
  EXPECT_FALSE(pace.OnPauseAsked(absl::Seconds(30), At(2)));
  EXPECT_EQ(pace.until(), At(32));
  for (int i = 0; i < 500; ++i) pace.OnAnswered(At(-1));
  EXPECT_EQ(pace.Allowed(0, At(31)), 0u);
  EXPECT_EQ(pace.Allowed(0, At(32)), 1u);
  EXPECT_EQ(pace.paused_since(), At(0));
}

TEST(TargetPace, NextPauseBeginsSmallAgain) {
  TargetPace pace;
  pace.OnPauseAsked(absl::Seconds(30), At(0));
  for (int i = 0; i < 100; ++i) pace.OnAnswered(At(30));
  EXPECT_EQ(pace.Allowed(0, At(40)), 101u);
  EXPECT_TRUE(pace.OnPauseAsked(absl::Seconds(5), At(40)));
  EXPECT_EQ(pace.Allowed(0, At(44)), 0u);
  EXPECT_EQ(pace.Allowed(0, At(45)), 1u);
  EXPECT_EQ(pace.paused_since(), At(40));
}

TEST(TargetPace, HangingAttemptAfterAPauseHoldsTheOthersOnlyBriefly) {
  TargetPace pace;
  pace.OnPauseAsked(absl::Seconds(30), At(0));
  pace.OnReserved(At(30));
  EXPECT_EQ(pace.Allowed(1, At(39.9)), 0u);
  EXPECT_EQ(pace.Allowed(1, At(40)), 1u);
  pace.OnReserved(At(40));
  EXPECT_EQ(pace.Allowed(2, At(49.9)), 0u);
  EXPECT_EQ(pace.Allowed(2, At(50)), 1u);
}

TEST(TargetPace, CutPauseStillLastsTenSeconds) {
  TargetPace pace;
  pace.OnPauseAsked(absl::Hours(1), At(0));
  pace.Cut(At(7200));
  EXPECT_EQ(pace.until(), At(3600));
  pace.Cut(At(50));
  EXPECT_EQ(pace.until(), At(50));
  pace.Cut(At(60));
  EXPECT_EQ(pace.until(), At(50));
  pace.Cut(At(1));
  EXPECT_EQ(pace.until(), At(10));
}

TEST(TargetPace, ResetEndsOnlyPauses) {
  TargetPace pace;
  pace.OnPauseAsked(absl::Hours(1), At(0));
  pace.Reset();
  EXPECT_FALSE(pace.IsPaused(At(1)));
  EXPECT_EQ(pace.Allowed(100, At(1)), TargetPace::kAnyNumber);
  EXPECT_FALSE(pace.paused_since().has_value());
  TargetPace first(4);
  first.Reset();
  EXPECT_EQ(first.Allowed(0, At(1)), 4u);
}

TEST(GrantPauses, PauseIsOfOnePolicyKeyAndTarget) {
  const Uid a = StableHash128("a");
  const Uid b = StableHash128("b");
  GrantPauses pauses;
  pauses.Note({a, "k", "t"}, At(30), At(0));
  pauses.Note({a, "k", "t"}, At(20), At(0));
  EXPECT_TRUE(pauses.IsPaused({a, "k", "t"}, At(29.9)));
  EXPECT_FALSE(pauses.IsPaused({a, "k", "t"}, At(30)));
  EXPECT_FALSE(pauses.IsPaused({b, "k", "t"}, At(1)));
  EXPECT_FALSE(pauses.IsPaused({a, "", "t"}, At(1)));
  EXPECT_FALSE(pauses.IsPaused({a, "k", "u"}, At(1)));
}

TEST(GrantPauses, MemoryIsBoundedAndEndedPausesMakeRoom) {
  const Uid policy = StableHash128("a");
  GrantPauses pauses;
  for (size_t i = 0; i < kGrantPausesMax; ++i)
    pauses.Note({policy, std::to_string(i), "t"}, At(30), At(0));
  pauses.Note({policy, "late", "t"}, At(60), At(1));
  EXPECT_FALSE(pauses.IsPaused({policy, "late", "t"}, At(2)));
  pauses.Note({policy, "late", "t"}, At(60), At(31));
  EXPECT_TRUE(pauses.IsPaused({policy, "late", "t"}, At(32)));
}

}  // namespace target_pace_test
}  // namespace escapement::handler
