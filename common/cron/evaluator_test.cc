#include "common/cron/evaluator.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace evaluator_test {

CronExpression Cron(const std::string& text) { return ParseCron(text).value(); }
Zone In(const std::string& name) { return Zone::Load(name).value(); }

absl::Time Utc(const std::string& text) {
  absl::Time t;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &t, &error)) << text << ": " << error;
  return t;
}

std::string Show(const Occurrence& o) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", o.instant, absl::UTCTimeZone()), " ",
                      absl::FormatCivilTime(o.civil), " ", o.fold,
                      NoteName(o.note).empty() ? "" : " ", NoteName(o.note));
}

std::string Next(const std::string& text, const std::string& zone, const std::string& after,
                 DstPolicy policy = {}) {
  const auto found = FirstAfter(Cron(text), In(zone), policy, Utc(after));
  return found ? Show(*found) : "none";
}

TEST(EvaluatorTest, FiresAtTheWallClockTimeOfTheZone) {
  EXPECT_EQ(Next("0 3,6,9 * * *", "Asia/Kolkata", "2026-11-20T21:29:59Z"),
            "2026-11-20T21:30:00Z 2026-11-21T03:00:00 0");
  EXPECT_EQ(Next("0 3,6,9 * * *", "Asia/Kolkata", "2026-11-20T21:30:00Z"),
            "2026-11-21T00:30:00Z 2026-11-21T06:00:00 0");
  EXPECT_EQ(Next("*/10 * * * * *", "UTC", "2026-01-01T00:00:00.5Z"),
            "2026-01-01T00:00:10Z 2026-01-01T00:00:10 0");
}

TEST(EvaluatorTest, NextIsStrictlyAfterAndAtOrAfterIsNot) {
  const CronExpression e = Cron("0 0 * * *");
  const absl::Time midnight = Utc("2026-05-05T00:00:00Z");
  EXPECT_EQ(FirstAtOrAfter(e, Zone::Utc(), {}, midnight)->instant, midnight);
  EXPECT_EQ(FirstAtOrAfter(e, Zone::Utc(), {}, midnight + absl::Nanoseconds(1))->instant,
            midnight + absl::Hours(24));
  EXPECT_EQ(FirstAfter(e, Zone::Utc(), {}, midnight)->instant, midnight + absl::Hours(24));
  EXPECT_EQ(FirstAfter(e, Zone::Utc(), {}, midnight - absl::Nanoseconds(1))->instant, midnight);
}

TEST(EvaluatorTest, ATimeOfDayInAGapFiresOnceWhenTheGapEnds) {
  EXPECT_EQ(Next("30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z"),
            "2026-03-08T07:00:00Z 2026-03-08T02:30:00 0 GAP_FIRED_AFTER");
  EXPECT_EQ(Next("15,45 2 * * *", "America/New_York", "2026-03-08T00:00:00Z"),
            "2026-03-08T07:00:00Z 2026-03-08T02:45:00 0 GAP_FIRED_AFTER")
      << "the latest nominal time names the occurrence";
  EXPECT_EQ(Next("0 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z"),
            "2026-03-08T07:00:00Z 2026-03-08T03:00:00 0")
      << "a time that exists names the occurrence";
  EXPECT_EQ(Next("0 2,3 * * *", "America/New_York", "2026-03-08T07:00:00Z"),
            "2026-03-09T06:00:00Z 2026-03-09T02:00:00 0");
}

TEST(EvaluatorTest, ARhythmSkipsAGap) {
  EXPECT_EQ(Next("*/30 * * * *", "America/New_York", "2026-03-08T06:30:00Z"),
            "2026-03-08T07:00:00Z 2026-03-08T03:00:00 0");
  EXPECT_EQ(Next("30 * * * *", "America/New_York", "2026-03-08T06:30:00Z"),
            "2026-03-08T07:30:00Z 2026-03-08T03:30:00 0");
}

TEST(EvaluatorTest, ShiftReadsTheTimeWithTheOffsetBeforeTheGap) {
  EXPECT_EQ(
      Next("30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", {.gap = GapPolicy::kShift}),
      "2026-03-08T07:30:00Z 2026-03-08T02:30:00 0 GAP_SHIFTED");
  EXPECT_EQ(
      Next("30 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z", {.gap = GapPolicy::kShift}),
      "2026-03-08T07:30:00Z 2026-03-08T03:30:00 0");
}

TEST(EvaluatorTest, AnOverlapFiresATimeOfDayFirstAndARhythmTwice) {
  EXPECT_EQ(Next("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z"),
            "2026-11-01T05:30:00Z 2026-11-01T01:30:00 0 OVERLAP_FIRST");
  EXPECT_EQ(Next("30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z"),
            "2026-11-02T06:30:00Z 2026-11-02T01:30:00 0");
  EXPECT_EQ(Next("30 * * * *", "America/New_York", "2026-11-01T05:30:00Z"),
            "2026-11-01T06:30:00Z 2026-11-01T01:30:00 1 OVERLAP_LAST");
  EXPECT_EQ(
      Next("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", {.fold = FoldPolicy::kLast}),
      "2026-11-01T06:30:00Z 2026-11-01T01:30:00 1 OVERLAP_LAST");
}

TEST(EvaluatorTest, LongChangeDoesNotCountAsDaylightSaving) {
  // Samoa had no 30 December 2011.
  EXPECT_EQ(Next("0 12 * * *", "Pacific/Apia", "2011-12-29T22:00:00Z"),
            "2011-12-30T22:00:00Z 2011-12-31T12:00:00 0");
  EXPECT_EQ(
      Next("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", {.gap = GapPolicy::kFireAfter}),
      "2011-12-30T10:00:00Z 2011-12-30T12:00:00 0 GAP_FIRED_AFTER");
}

TEST(EvaluatorTest, EveryAcceptedExpressionEndsItsSearch) {
  EXPECT_EQ(Next("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z"),
            "2104-02-29T00:00:00Z 2104-02-29T00:00:00 0");
  EXPECT_EQ(Next("0 0 30 2 *", "Europe/Berlin", "2026-01-01T00:00:00Z"), "none");
  EXPECT_FALSE(HasAnyOccurrence(Cron("0 0 31 4,6,9,11 *"), In("Europe/Berlin"), {}));
  EXPECT_TRUE(HasAnyOccurrence(Cron("0 0 29 2 *"), In("Europe/Berlin"), {}));
  EXPECT_EQ(Next("59 59 23 31 12 *", "UTC", "2199-12-31T23:59:58Z"),
            "2199-12-31T23:59:59Z 2199-12-31T23:59:59 0");
  EXPECT_EQ(Next("* * * * * *", "UTC", "2199-12-31T23:59:59Z"), "none");
  EXPECT_FALSE(FirstAtOrAfter(Cron("* * * * *"), Zone::Utc(), {}, absl::InfiniteFuture()));
  EXPECT_EQ(FirstAtOrAfter(Cron("* * * * *"), Zone::Utc(), {}, absl::InfinitePast())->instant,
            absl::UnixEpoch());
}

TEST(EvaluatorTest, DaysCountFromEndOfMonthOrMoveToAWeekday) {
  EXPECT_EQ(Next("0 0 L * *", "UTC", "2028-02-01T00:00:00Z"),
            "2028-02-29T00:00:00Z 2028-02-29T00:00:00 0");
  EXPECT_EQ(Next("0 0 L-30 * *", "UTC", "2026-02-02T00:00:00Z"),
            "2026-03-01T00:00:00Z 2026-03-01T00:00:00 0");
  // 1 August 2026 is a Saturday, 31 May 2026 a Sunday, 15 August 2026 a Saturday.
  EXPECT_EQ(Next("0 0 1W * *", "UTC", "2026-07-31T00:00:00Z"),
            "2026-08-03T00:00:00Z 2026-08-03T00:00:00 0");
  EXPECT_EQ(Next("0 0 LW * *", "UTC", "2026-05-01T00:00:00Z"),
            "2026-05-29T00:00:00Z 2026-05-29T00:00:00 0");
  EXPECT_EQ(Next("0 0 15W * *", "UTC", "2026-08-01T00:00:00Z"),
            "2026-08-14T00:00:00Z 2026-08-14T00:00:00 0");
  EXPECT_EQ(Next("0 0 31W * *", "UTC", "2026-05-30T00:00:00Z"),
            "2026-07-31T00:00:00Z 2026-07-31T00:00:00 0")
      << "June has no 31st";
  EXPECT_EQ(Next("0 0 L-30W * *", "UTC", "2026-08-02T00:00:00Z"),
            "2026-08-03T00:00:00Z 2026-08-03T00:00:00 0");
}

TEST(EvaluatorTest, WeekdaysMayCountWithinTheMonth) {
  EXPECT_EQ(Next("0 0 * * TUE#2", "UTC", "2026-09-01T00:00:00Z"),
            "2026-09-08T00:00:00Z 2026-09-08T00:00:00 0");
  EXPECT_EQ(Next("0 0 * * 5#5", "UTC", "2026-11-01T00:00:00Z"),
            "2027-01-29T00:00:00Z 2027-01-29T00:00:00 0");
  EXPECT_EQ(Next("0 0 * * 0L", "UTC", "2026-11-01T00:00:00Z"),
            "2026-11-29T00:00:00Z 2026-11-29T00:00:00 0");
  EXPECT_EQ(Next("0 0 * 2 7#L", "UTC", "2026-11-01T00:00:00Z"),
            "2027-02-28T00:00:00Z 2027-02-28T00:00:00 0");
}

TEST(EvaluatorTest, BothDayFieldsMatchEitherOrWithAPlusBoth) {
  EXPECT_EQ(Next("0 0 13 * FRI", "UTC", "2026-11-11T00:00:00Z"),
            "2026-11-13T00:00:00Z 2026-11-13T00:00:00 0");
  EXPECT_EQ(Next("0 0 14 * FRI", "UTC", "2026-11-13T00:00:00Z"),
            "2026-11-14T00:00:00Z 2026-11-14T00:00:00 0");
  EXPECT_EQ(Next("0 0 13 * +FRI", "UTC", "2026-11-13T00:00:00Z"),
            "2027-08-13T00:00:00Z 2027-08-13T00:00:00 0");
  EXPECT_EQ(Next("0 0 L * +SUN", "UTC", "2026-06-01T00:00:00Z"),
            "2027-01-31T00:00:00Z 2027-01-31T00:00:00 0");
}

TEST(EvaluatorTest, GapsOfDecadesAreJumped) {
  EXPECT_EQ(Next("0 0 29 2 +SUN", "UTC", "2088-03-01T00:00:00Z"),
            "2128-02-29T00:00:00Z 2128-02-29T00:00:00 0")
      << "40 years: 2100 has no 29 February";
  EXPECT_EQ(Next("0 0 0 29 2 * 2196", "America/New_York", "1970-01-01T00:00:00Z"),
            "2196-02-29T05:00:00Z 2196-02-29T00:00:00 0");
  EXPECT_EQ(Next("0 0 0 29 2 * 2197-2199", "America/New_York", "1970-01-01T00:00:00Z"), "none");
  EXPECT_EQ(Next("0 0 0 1 1 * 2026", "UTC", "2026-01-01T00:00:00Z"), "none");
  EXPECT_EQ(Next("0 0 0 31 12 * 1970,2199", "UTC", "1970-12-31T00:00:00Z"),
            "2199-12-31T00:00:00Z 2199-12-31T00:00:00 0");
  EXPECT_FALSE(HasAnyOccurrence(Cron("0 0 15W * +SUN"), In("Europe/Berlin"), {}));
  // In New York, from 2007 on, 02:30 does not exist on the second Sunday of March.
  EXPECT_EQ(Next("0 30 2 8-14 3 +SUN 2007/1", "America/New_York", "2007-01-01T00:00:00Z",
                 {.gap = GapPolicy::kSkip}),
            "none");
}

TEST(EvaluatorTest, FixedTimeFiresInShortGapAndNotInLongGap) {
  // Troll changes by two hours; Apia skipped a day.
  EXPECT_EQ(Next("30 2 29 3 *", "Antarctica/Troll", "2026-03-01T00:00:00Z"),
            "2026-03-29T01:00:00Z 2026-03-29T02:30:00 0 GAP_FIRED_AFTER");
  EXPECT_EQ(Next("0 0 12 30 12 * 2011", "Pacific/Apia", "2011-01-01T00:00:00Z"), "none");
}

TEST(EvaluatorTest, ExclusionsApplyBeforeTimesBecomeInstants) {
  const auto next = [](const std::string& text, const std::vector<std::string>& excluded,
                       const std::string& zone, const std::string& after, DstPolicy policy = {}) {
    std::vector<CronExpression> exclusions;
    for (const std::string& x : excluded) exclusions.push_back(ParseExclusion(x).value());
    const auto found =
        FirstAfter(Cron(text), In(zone), policy, Utc(after), {.exclusions = exclusions});
    return found ? Show(*found) : "none";
  };
  EXPECT_EQ(next("0 9 * * *", {"* * 25,26 12 *", "* * * * SUN"}, "UTC", "2026-12-24T09:00:00Z"),
            "2026-12-28T09:00:00Z 2026-12-28T09:00:00 0");
  EXPECT_EQ(next("*/30 * * * * *", {"0 * * * *"}, "UTC", "2026-12-24T09:59:30Z"),
            "2026-12-24T10:01:00Z 2026-12-24T10:01:00 0")
      << "an absent second excludes every second";
  EXPECT_EQ(next("15,45 2 * * *", {"45 * * * *"}, "America/New_York", "2026-03-08T00:00:00Z"),
            "2026-03-08T07:00:00Z 2026-03-08T02:15:00 0 GAP_FIRED_AFTER")
      << "what is left of the gap's times names the occurrence";
  EXPECT_EQ(next("30 2 * * *", {"30 3 * * *"}, "America/New_York", "2026-03-08T00:00:00Z",
                 {.gap = GapPolicy::kShift}),
            "2026-03-08T07:30:00Z 2026-03-08T02:30:00 0 GAP_SHIFTED")
      << "the nominal time counts, not the clock's";
  // Two exclusions that alternate, for ten years.
  EXPECT_EQ(next("* * * * * *", {"0-29 * * * * * 2030-2039", "30-59 * * * * * 2030-2039"}, "UTC",
                 "2029-12-31T23:59:59Z"),
            "2040-01-01T00:00:00Z 2040-01-01T00:00:00 0");
  EXPECT_EQ(next("* * * * * *", {"0-29 * * * *", "30-59 * * * *"}, "UTC", "2029-12-31T23:59:59Z"),
            "none");
}

TEST(EvaluatorTest, EnumerateIsHalfOpenAndBounded) {
  const CronExpression e = Cron("0 * * * *");
  const absl::Time t = Utc("2026-01-01T00:00:00Z");
  EXPECT_EQ(Enumerate(e, Zone::Utc(), {}, t, t + absl::Hours(3), 100).size(), 3u);
  EXPECT_EQ(Enumerate(e, Zone::Utc(), {}, t, t + absl::Hours(3) + absl::Nanoseconds(1), 100).size(),
            4u);
  EXPECT_EQ(Enumerate(e, Zone::Utc(), {}, t, t + absl::Hours(30), 7).size(), 7u);
  EXPECT_TRUE(Enumerate(e, Zone::Utc(), {}, t, t, 7).empty());
}

}  // namespace evaluator_test
}  // namespace escapement::cron
