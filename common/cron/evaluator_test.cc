#include "common/cron/evaluator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace {

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
  EXPECT_EQ(Next("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z",
                 {.overlap = OverlapPolicy::kLast}),
            "2026-11-01T06:30:00Z 2026-11-01T01:30:00 1 OVERLAP_LAST");
}

TEST(EvaluatorTest, ALongChangeIsNoDaylightSaving) {
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

TEST(EvaluatorTest, EnumerateIsHalfOpenAndBounded) {
  const CronExpression e = Cron("0 * * * *");
  const absl::Time t = Utc("2026-01-01T00:00:00Z");
  EXPECT_EQ(Enumerate(e, Zone::Utc(), {}, t, t + absl::Hours(3), 100).size(), 3u);
  EXPECT_EQ(Enumerate(e, Zone::Utc(), {}, t, t + absl::Hours(3) + absl::Nanoseconds(1), 100).size(),
            4u);
  EXPECT_EQ(Enumerate(e, Zone::Utc(), {}, t, t + absl::Hours(30), 7).size(), 7u);
  EXPECT_TRUE(Enumerate(e, Zone::Utc(), {}, t, t, 7).empty());
}

}  // namespace
}  // namespace escapement::cron
