#include "services/master/schedules/changes/schedule_warnings.h"

#include <string>
#include <vector>

#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {
namespace schedule_warnings_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Strings = std::vector<std::string>;

// 2026-12-01T00:00:00Z
const absl::Time kNow = absl::FromUnixSeconds(1'796'083'200);

Definition Defined(const std::string& text) {
  v1::Schedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text + " target { http { uri: 'http://h/' } }", &schedule))
      << text;
  absl::StatusOr<ScheduleDraft> draft = DraftOf(schedule, "default");
  EXPECT_TRUE(draft.ok()) << text << draft.status();
  FillAnchor(draft->definition, kNow);
  return draft->definition;
}

Strings Of(const std::string& text) { return WarningsOf(Defined(text), kNow); }

TEST(ScheduleWarnings, AnOrdinaryScheduleHasNone) {
  EXPECT_THAT(Of("cron: '0 3 * * *'"), IsEmpty());
  EXPECT_THAT(Of("cron: '*/15 * * * *' time_zone: 'Europe/Berlin'"), IsEmpty());
  EXPECT_THAT(Of("interval { every { seconds: 90 } } time_zone: 'Europe/Berlin'"), IsEmpty());
  EXPECT_THAT(Of("times { seconds: 1800000000 } times { seconds: 1900000000 }"), IsEmpty());
}

TEST(ScheduleWarnings, RetrySpanCountsLongestBackoffsAndTimeouts) {
  const auto span = [](const std::string& text) {
    return RetrySpanMax(Defined("cron: '0 3 * * *' " + text).record.delivery());
  };
  // 25 × 10 s + 1 s + 2 s + … + 256 s + 15 × 300 s
  EXPECT_EQ(span(""), absl::Seconds(5261));
  // 4 × 10 s + 1 s + 2 s + 4 s
  EXPECT_EQ(span("retry_policy { max_attempts: 4 }"), absl::Seconds(47));
  EXPECT_EQ(span("retry_policy { max_attempts: 1 }"), absl::Seconds(10));
  // 5 × 1 s + 2 s + 6 s + 10 s + 10 s
  EXPECT_EQ(span("delivery_timeout { seconds: 1 } retry_policy { max_attempts: 5 multiplier: 3 "
                 "min_backoff { seconds: 2 } max_backoff { seconds: 10 } }"),
            absl::Seconds(33));
  EXPECT_EQ(span("retry_policy { max_attempts: 100 max_age { seconds: 20 } }"), absl::Seconds(20));
}

TEST(ScheduleWarnings, RetriesLongerThanTheShortestPeriodAreTold) {
  const std::string kTold =
      "retries can last 1h27m41s, longer than the shortest period of 30s: an event is not retried "
      "after "
      "the next occurrence is due, unless retry_policy.keep is set";
  EXPECT_THAT(Of("cron: '*/30 * * * * *'"), ElementsAre(kTold));
  EXPECT_THAT(Of("interval { every { seconds: 30 } }"), ElementsAre(kTold));
  EXPECT_THAT(Of("times { seconds: 1800000000 } times { seconds: 1800000030 }"),
              ElementsAre(kTold));
  // Two neighbours a day are enough.
  EXPECT_THAT(Of("cron: '0,30 0 3 * * *'"), ElementsAre(kTold));
  EXPECT_THAT(Of("cron: '*/30 * * * * *' retry_policy { keep: true }"), IsEmpty());
  EXPECT_THAT(Of("cron: '*/30 * * * * *' retry_policy { max_attempts: 1 }"), IsEmpty());
  EXPECT_THAT(Of("interval { every { seconds: 47 } }"), IsEmpty());
  // A policy that was chosen is meant to be used up.
  EXPECT_THAT(Of("interval { every { seconds: 60 } } retry_policy { max_attempts: 24 }").size(),
              1u);
  // The exclusion leaves one of each pair.
  EXPECT_THAT(Of("cron: '0,30 0 3 * * *' exclusions: '30 * * * * *'"), IsEmpty());
}

TEST(ScheduleWarnings, JitterThatIsAsLongAsThePeriodIsTold) {
  EXPECT_THAT(Of("interval { every { seconds: 60 } } jitter { seconds: 59 }"), IsEmpty());
  EXPECT_THAT(Of("interval { every { seconds: 60 } } jitter { seconds: 60 }"),
              ElementsAre("jitter of up to 1m is not below the shortest period of 1m: runs may "
                          "launch in another order"));
}

TEST(ScheduleWarnings, TheShortestPeriodIsFoundWhereverItIs) {
  const auto told = [](const std::string& period) {
    return ElementsAre(::testing::HasSubstr("is not below the shortest period of " + period));
  };
  EXPECT_THAT(Of("cron: '*/10 * * * *' jitter { seconds: 600 }"), told("10m:"));
  EXPECT_THAT(Of("cron: '*/10 * * * *' jitter { seconds: 599 }"), IsEmpty());
  EXPECT_THAT(Of("cron: '0 1,3 * * *' jitter { seconds: 7200 }"), told("2h:"));
  EXPECT_THAT(Of("cron: '7 * * * * *' jitter { seconds: 60 } retry_policy { max_attempts: 1 }"),
              told("1m:"));
  // Once a year the gap moves 02:59 to a minute after 01:59.
  EXPECT_EQ(Of("cron: '59 1,2 * * *' time_zone: 'Europe/Berlin' jitter { seconds: 60 }").front(),
            "jitter of up to 1m is not below the shortest period of 1m: runs may launch in another "
            "order");
}

TEST(ScheduleWarnings, DaysThatSomeMonthsDoNotHaveAreTold) {
  EXPECT_THAT(Of("cron: '0 3 31 * *'"),
              ElementsAre("never on the 31st in February, April, June, September and November"));
  EXPECT_THAT(Of("cron: '0 3 1,30 1-3 *'"), ElementsAre("never on the 30th in February"));
  EXPECT_THAT(Of("cron: '0 0 3 29 2 *'"), ElementsAre("on 29 February only in leap years"));
  EXPECT_THAT(Of("cron_fields { hour: '3' minute: '0' day_of_month: '31' month: '3,4' }"),
              ElementsAre("never on the 31st in April"));
  EXPECT_THAT(Of("cron: '0 3 31W 3,4 *'"), ElementsAre("never on the 31st in April"));
  EXPECT_THAT(Of("cron: '0 3 31 1,3 *'"), IsEmpty());
  EXPECT_THAT(Of("cron: '0 3 L,LW,L-30 * SUN#5'"), IsEmpty());
  // The expression does not name the 31st.
  EXPECT_THAT(Of("cron: '0 3 */2 * *'"), IsEmpty());
  EXPECT_THAT(Of("cron: '0 3 25-31 * *'"), IsEmpty());
}

TEST(ScheduleWarnings, TimesOfDayThatAChangeOfTheOffsetMeetsAreTold) {
  const std::string kBerlin = "cron: '30 2 * * *' time_zone: 'Europe/Berlin' ";
  EXPECT_THAT(Of(kBerlin),
              ElementsAre("02:30 on 2027-03-28 does not exist in Europe/Berlin: fires at 03:00"));
  EXPECT_THAT(Of(kBerlin + "dst_policy { gap: SKIP }"),
              ElementsAre("02:30 on 2027-03-28 does not exist in Europe/Berlin: skipped"));
  EXPECT_THAT(Of(kBerlin + "dst_policy { gap: SHIFT overlap: BOTH }"),
              ElementsAre("02:30 on 2027-03-28 does not exist in Europe/Berlin: fires at 03:30",
                          "02:30 on 2027-10-31 exists twice in Europe/Berlin: fires twice"));
  EXPECT_THAT(Of(kBerlin + "dst_policy { overlap: LAST }"),
              ElementsAre("02:30 on 2027-03-28 does not exist in Europe/Berlin: fires at 03:00"));
  EXPECT_THAT(
      Of("cron: '15 30 2 * * *' time_zone: 'Europe/Berlin'"),
      ElementsAre("02:30:15 on 2027-03-28 does not exist in Europe/Berlin: fires at 03:00"));
  // Excluded, at another time of day, over by then, or not begun for another year.
  EXPECT_THAT(Of(kBerlin + "exclusions: '* * 28 3 *'"), IsEmpty());
  EXPECT_THAT(Of("cron: '30 3 * * *' time_zone: 'Europe/Berlin'"), IsEmpty());
  EXPECT_THAT(Of(kBerlin + "end_time { seconds: 1800000000 }"), IsEmpty());
  // 2028-04-01 to 2029-04-01: another gap.
  EXPECT_THAT(Of(kBerlin + "start_time { seconds: 1838000000 }"),
              ElementsAre("02:30 on 2029-03-25 does not exist in Europe/Berlin: fires at 03:00"));
  // On Sundays of another week.
  EXPECT_THAT(Of("cron: '30 2 1 * *' time_zone: 'Europe/Berlin'"), IsEmpty());
}

TEST(ScheduleWarnings, NoMoreThanAFewChangesOfTheOffsetAreTold) {
  EXPECT_EQ(
      Of("cron: '0-50/1 2 28 3 *' time_zone: 'Europe/Berlin' dst_policy { gap: SKIP }").size(),
      0u);  // periodic
  EXPECT_EQ(Of("cron: '1,2,3,4,5,6,7 2 * * *' time_zone: 'Europe/Berlin' "
               "retry_policy { max_attempts: 1 }")
                .size(),
            5u);
}

TEST(ScheduleWarnings, ExclusionsThatMatchNothingAreTold) {
  const auto idle = [](const std::string& exclusion) {
    return "the exclusion \"" + exclusion + "\" matches no occurrence of the next year";
  };
  EXPECT_THAT(Of("cron: '0 3 * * MON-FRI' exclusions: '* * * * SAT' exclusions: '* * 25 12 *' "
                 "exclusions: '* 4 * * *'"),
              ElementsAre(idle("* * * * SAT"), idle("* 4 * * *")));
  EXPECT_THAT(Of("cron: '0 3 * * *' exclusions: '0 0 3 24 12 *' exclusions: '1 0 3 24 12 *'"),
              ElementsAre(idle("1 0 3 24 12 *")));
  EXPECT_THAT(Of("interval { every { seconds: 7200 } } exclusions: '* 4 * * *' "
                 "exclusions: '* 5 * * *'"),
              ElementsAre(idle("* 5 * * *")));
  // 02:20, then the second 02:15: no leap to the next 02:15 may pass it.
  EXPECT_THAT(Of("times { seconds: 1824942000 } times { seconds: 1824945300 } "
                 "time_zone: 'Europe/Berlin' exclusions: '15 2 31 10 *'"),
              IsEmpty());
}

TEST(ScheduleWarnings, PoliciesWithoutEffectAreTold) {
  EXPECT_THAT(Of("cron: '0 3 * * *' dst_policy { gap: SKIP }"),
              ElementsAre("dst_policy has no effect: the offset of UTC does not change"));
  EXPECT_THAT(Of("cron: '0 3 * * *' retry_policy { max_attempts: 1 keep: true }"),
              ElementsAre("retry_policy.keep has no effect: there is only one attempt"));
  EXPECT_THAT(Of("times { seconds: 1900000000 } max_runs: 1 overlap_policy: SKIP"),
              ElementsAre("max_runs has no effect: there are 1 times",
                          "overlap_policy has no effect: there is only one time"));
}

TEST(ScheduleWarnings, AnEndInThePastIsTold) {
  EXPECT_THAT(Of("times { seconds: 5 }"), ElementsAre("every occurrence has passed"));
}

// The work is bounded: every 2 s, of which the exclusions, passed one by one, leave a minute a day.
TEST(ScheduleWarnings, MuchThatIsExcludedDoesNotTakeForever) {
  EXPECT_THAT(Of("interval { every { seconds: 2 } } exclusions: '*/2 1-59 * * * *' "
                 "exclusions: '*/2 0 1-23 * * *'"),
              ElementsAre(::testing::HasSubstr("retries can last 1h27m41s")));
}

}  // namespace schedule_warnings_test
}  // namespace escapement::master
