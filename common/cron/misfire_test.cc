#include <random>
#include <string>
#include <vector>

#include "common/cron/timetable.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace misfire_test {

absl::Time Utc(const std::string& text) {
  absl::Time t;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &t, &error)) << text << ": " << error;
  return t;
}

Timetable Cron(const std::string& text) {
  TimetableSpec spec;
  spec.cron = ParseCron(text).value();
  return Timetable(std::move(spec));
}

constexpr absl::Duration kThreshold = absl::Seconds(60);
MisfirePolicy Policy(MisfireAction action, size_t max_catch_up) {
  return {.action = action, .threshold = kThreshold, .max_catch_up = max_catch_up};
}

const absl::Time kBegin = Utc("2026-11-21T00:00:00Z");

TEST(MisfireTest, OccurrenceWithinTheThresholdIsNotMissed) {
  for (const MisfireAction action :
       {MisfireAction::kFireAll, MisfireAction::kFireLatest, MisfireAction::kSkip}) {
    const MisfirePlan plan =
        PlanMissed(Cron("* * * * *"), Policy(action, 10), kBegin, kBegin + kThreshold);
    EXPECT_TRUE(plan.Fires(kBegin));
  }
  EXPECT_FALSE(PlanMissed(Cron("* * * * *"), Policy(MisfireAction::kSkip, 10), kBegin,
                          kBegin + kThreshold + absl::Microseconds(1))
                   .Fires(kBegin));
}

TEST(MisfireTest, FireAllFiresTheLatestAndSummarisesTheSurplus) {
  const MisfirePlan plan = PlanMissed(Cron("0 * * * *"), Policy(MisfireAction::kFireAll, 3), kBegin,
                                      kBegin + absl::Hours(10) + absl::Minutes(30));
  // 00:00 to 10:00 are missed: 08, 09 and 10 fire.
  EXPECT_TRUE(plan.InSummary(kBegin + absl::Hours(7)));
  EXPECT_FALSE(plan.InSummary(kBegin + absl::Hours(8)));
  EXPECT_TRUE(plan.Fires(kBegin + absl::Hours(8)));
  EXPECT_TRUE(plan.Fires(kBegin + absl::Hours(11)));
}

TEST(MisfireTest, FireLatestFiresOneAndSkipFiresNone) {
  const absl::Time now = kBegin + absl::Hours(10) + absl::Minutes(30);
  const MisfirePlan latest =
      PlanMissed(Cron("0 * * * *"), Policy(MisfireAction::kFireLatest, 3), kBegin, now);
  EXPECT_TRUE(latest.InSummary(kBegin + absl::Hours(7)));
  EXPECT_FALSE(latest.InSummary(kBegin + absl::Hours(8)) || latest.Fires(kBegin + absl::Hours(9)));
  EXPECT_TRUE(latest.Fires(kBegin + absl::Hours(10)));
  const MisfirePlan skip =
      PlanMissed(Cron("0 * * * *"), Policy(MisfireAction::kSkip, 3), kBegin, now);
  EXPECT_FALSE(skip.Fires(kBegin + absl::Hours(10)));
  EXPECT_TRUE(skip.Fires(kBegin + absl::Hours(11)));
}

TEST(MisfireTest, OccurrencesOlderThanMaxAgeDoNotFire) {
  const absl::Time now = kBegin + absl::Hours(10) + absl::Minutes(30);
  MisfirePolicy policy = Policy(MisfireAction::kFireAll, 5);
  policy.max_age = absl::Hours(2) + absl::Minutes(30);
  // 00:00 to 10:00 are missed: 06 and 07 are too old, 08 is just not.
  const MisfirePlan plan = PlanMissed(Cron("0 * * * *"), policy, kBegin, now);
  EXPECT_TRUE(plan.InSummary(kBegin + absl::Hours(5)));
  EXPECT_FALSE(plan.InSummary(kBegin + absl::Hours(6)));
  EXPECT_FALSE(plan.Fires(kBegin + absl::Hours(7)));
  EXPECT_TRUE(plan.Fires(kBegin + absl::Hours(8)));
  policy.action = MisfireAction::kFireLatest;
  EXPECT_TRUE(PlanMissed(Cron("0 * * * *"), policy, kBegin, now).Fires(kBegin + absl::Hours(10)));
  policy.max_age = absl::Minutes(20);
  EXPECT_FALSE(PlanMissed(Cron("0 * * * *"), policy, kBegin, now).Fires(kBegin + absl::Hours(10)));
}

// Checks the plan against its definition, for each occurrence.
TEST(MisfireTest, EveryOccurrenceIsInOnePart) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 600; ++round) {
    const char* texts[] = {"* * * * *", "0 * * * *", "*/20 * * * * *", "0 3 * * *", "0 0 1 1 *"};
    const Timetable timetable = Cron(texts[random() % 5]);
    const MisfirePolicy policy = {.action = static_cast<MisfireAction>(random() % 3),
                                  .threshold = absl::Seconds(random() % 200),
                                  .max_catch_up = 1 + random() % 20,
                                  .max_age = random() % 2 == 0 ? absl::InfiniteDuration()
                                                               : absl::Seconds(random() % 100'000)};
    const absl::Time begin = kBegin + absl::Milliseconds(random() % 1'000'000),
                     now = begin + absl::Milliseconds(random() % 100'000'000);
    const MisfirePlan plan = PlanMissed(timetable, policy, begin, now);
    ASSERT_LE(begin, plan.summary_to);
    ASSERT_LE(plan.summary_to, plan.fire_from);
    const std::vector<Occurrence> all = timetable.Enumerate(begin, now + absl::Hours(1), 1'000'000);
    size_t missed = 0;
    for (const Occurrence& o : all) missed += o.instant + policy.threshold < now;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool summary = i + policy.max_catch_up < missed;
      const bool fires =
          i >= missed || (all[i].instant + policy.max_age >= now &&
                          ((policy.action == MisfireAction::kFireAll && !summary) ||
                           (policy.action == MisfireAction::kFireLatest && i + 1 == missed)));
      ASSERT_EQ(plan.InSummary(all[i].instant), summary) << i << " of " << missed;
      ASSERT_EQ(plan.Fires(all[i].instant), fires) << i << " of " << missed;
    }
  }
}

}  // namespace misfire_test
}  // namespace escapement::cron
