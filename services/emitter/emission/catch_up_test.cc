#include "absl/strings/str_cat.h"
#include "common/cron/cron_expression.h"
#include "gtest/gtest.h"
#include "services/emitter/base/options.h"
#include "services/emitter/emission/emission_plan.h"

namespace escapement::emitter {
namespace catch_up_test {

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

absl::Time Minute(int minute) { return kStart + absl::Minutes(minute); }

cron::Timetable EveryMinute() {
  cron::TimetableSpec spec;
  spec.cron = cron::ParseCron("* * * * *").value();
  return cron::Timetable(std::move(spec));
}

TEST(CatchUpTest, AheadOfTimeNothingIsMissed) {
  CatchUp catch_up;
  for (int second = 0; second < 5; ++second) {
    const absl::Time now = kStart + absl::Seconds(second);
    catch_up.OnWindow(now + absl::Seconds(4), now + absl::Seconds(5), /*resumed=*/false, now);
    EXPECT_FALSE(catch_up.MayMiss(now + absl::Seconds(4), absl::ZeroDuration()));
  }
}

TEST(CatchUpTest, ADowntimeIsJudgedAsOfItsEndUntilTheWindowsHavePassedThat) {
  CatchUp catch_up;
  catch_up.OnWindow(Minute(0), Minute(1), false, Minute(30));
  EXPECT_EQ(catch_up.judged_at(), Minute(30));
  EXPECT_EQ(catch_up.begin(), Minute(0));
  catch_up.OnWindow(Minute(29), Minute(30), false, Minute(32));
  EXPECT_EQ(catch_up.judged_at(), Minute(30));
  EXPECT_EQ(catch_up.begin(), Minute(0));
  EXPECT_FALSE(catch_up.MayMiss(Minute(29), absl::Minutes(1)));
  EXPECT_TRUE(catch_up.MayMiss(Minute(29), absl::Minutes(1) - absl::Microseconds(1)));
  catch_up.OnWindow(Minute(30), Minute(31), false, Minute(33));
  EXPECT_EQ(catch_up.judged_at(), Minute(33));
  EXPECT_EQ(catch_up.begin(), Minute(30));
}

TEST(CatchUpTest, APlanIsMadeOnceAndStandsUnderItsFirstOccurrence) {
  CatchUp catch_up;
  catch_up.OnWindow(Minute(0) + absl::Seconds(1), Minute(1), false, Minute(30));
  EXPECT_EQ(catch_up.Find("p"), nullptr);
  const auto plan = catch_up.Make("p", EveryMinute(), {.max_catch_up = 10}, absl::InfinitePast());
  EXPECT_EQ(catch_up.Find("p"), plan);
  ASSERT_TRUE(plan->summary.has_value());
  EXPECT_EQ(plan->summary->instant, Minute(1));
  // Missed are 1 to 28.
  EXPECT_TRUE(plan->InSummary(Minute(18)));
  EXPECT_FALSE(plan->InSummary(Minute(19)));
  EXPECT_FALSE(plan->misfire.Fires(Minute(18)));
  EXPECT_TRUE(plan->misfire.Fires(Minute(19)));
  // The schedule begins later.
  const auto later = catch_up.Make("l", EveryMinute(), {.max_catch_up = 10}, Minute(17));
  ASSERT_TRUE(later->summary.has_value());
  EXPECT_EQ(later->summary->instant, Minute(17));
  EXPECT_FALSE(catch_up.Make("n", EveryMinute(), {.max_catch_up = 10}, Minute(20))->summary);
  // The next catch-up knows nothing of it.
  catch_up.OnWindow(Minute(30), Minute(31), false, Minute(40));
  EXPECT_EQ(catch_up.Find("p"), nullptr);
}

// The former owner's catch-up may have fired the first occurrences of the window.
TEST(CatchUpTest, WindowBegunByAnotherIsNotSummarised) {
  CatchUp catch_up;
  catch_up.OnWindow(Minute(0), Minute(2), /*resumed=*/true, Minute(30));
  const auto plan = catch_up.Make("p", EveryMinute(), {.max_catch_up = 10}, absl::InfinitePast());
  ASSERT_TRUE(plan->summary.has_value());
  EXPECT_EQ(plan->summary->instant, Minute(2));
  for (const int minute : {0, 1}) {
    EXPECT_FALSE(plan->misfire.Fires(Minute(minute)));
    EXPECT_FALSE(plan->InSummary(Minute(minute)));
  }
  EXPECT_TRUE(plan->InSummary(Minute(2)));
}

TEST(CatchUpTest, PlansAreBounded) {
  CatchUp catch_up;
  catch_up.OnWindow(Minute(0), Minute(1), false, Minute(10));
  const auto first = catch_up.Make("first", EveryMinute(), {}, absl::InfinitePast());
  for (size_t i = 0; i < kCatchUpPlansMax; ++i)
    catch_up.Make(absl::StrCat(i), EveryMinute(), {.max_catch_up = 1}, absl::InfinitePast());
  EXPECT_EQ(catch_up.Find("first"), nullptr) << "forgotten, but not taken from who has it";
  EXPECT_TRUE(first->misfire.Fires(Minute(0)));
}

}  // namespace catch_up_test
}  // namespace escapement::emitter
