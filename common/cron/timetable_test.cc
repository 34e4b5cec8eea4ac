#include "common/cron/timetable.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace timetable_test {

using ::testing::ElementsAre;

absl::Time Utc(const std::string& text) {
  absl::Time t;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &t, &error)) << text << ": " << error;
  return t;
}

TimetableSpec CronSpec(const std::string& text, const std::string& zone = "UTC",
                       const std::vector<std::string>& excluded = {}) {
  TimetableSpec spec;
  spec.cron = ParseCron(text).value();
  spec.zone = Zone::Load(zone).value();
  for (const std::string& x : excluded) spec.exclusions.push_back(ParseExclusion(x).value());
  return spec;
}

TimetableSpec IntervalSpec(absl::Duration every, absl::Time anchor,
                           const std::vector<std::string>& excluded = {}) {
  TimetableSpec spec;
  spec.every = every;
  spec.anchor = anchor;
  for (const std::string& x : excluded) spec.exclusions.push_back(ParseExclusion(x).value());
  return spec;
}

std::vector<std::string> Show(const std::vector<Occurrence>& occurrences) {
  std::vector<std::string> texts;
  for (const Occurrence& o : occurrences)
    texts.push_back(absl::FormatTime("%Y-%m-%dT%H:%M:%E*S", o.instant, absl::UTCTimeZone()));
  return texts;
}

TEST(TimetableTest, StartIsInclusiveAndEndIsExclusive) {
  TimetableSpec spec = CronSpec("0 3 * * *");
  spec.start = Utc("2026-11-21T03:00:00Z");
  spec.end = Utc("2026-11-23T03:00:00Z");
  const Timetable timetable(spec);
  EXPECT_THAT(Show(timetable.Enumerate(absl::InfinitePast(), absl::InfiniteFuture(), 10)),
              ElementsAre("2026-11-21T03:00:00", "2026-11-22T03:00:00"));
  EXPECT_EQ(timetable.FirstAtOrAfter(absl::InfinitePast())->instant, spec.start);
  EXPECT_EQ(timetable.FirstAfter(spec.start)->instant, spec.start + absl::Hours(24));
  EXPECT_FALSE(timetable.FirstAfter(spec.start + absl::Hours(24)).has_value());
  EXPECT_THAT(Show(timetable.EnumerateLast(absl::InfinitePast(), absl::InfiniteFuture(), 1)),
              ElementsAre("2026-11-22T03:00:00"));
}

TEST(TimetableTest, AnIntervalCountsElapsedTimeFromItsAnchorInBothDirections) {
  TimetableSpec spec = IntervalSpec(absl::Hours(36), Utc("2026-11-21T00:00:00.25Z"));
  spec.zone = Zone::Load("Europe/Berlin").value();
  const Timetable timetable(spec);
  EXPECT_THAT(
      Show(timetable.Enumerate(Utc("2026-11-18T00:00:00Z"), Utc("2026-11-23T00:00:00Z"), 10)),
      ElementsAre("2026-11-18T00:00:00.25", "2026-11-19T12:00:00.25", "2026-11-21T00:00:00.25",
                  "2026-11-22T12:00:00.25"));
  EXPECT_EQ(timetable.FirstAtOrAfter(spec.anchor)->civil, absl::CivilSecond(2026, 11, 21, 1, 0, 0));
  EXPECT_FALSE(timetable.calendar());
  EXPECT_EQ(timetable.IdOf(*timetable.FirstAtOrAfter(spec.anchor)), "20261121T000000.250000Z");
  EXPECT_GE(timetable.FirstAtOrAfter(absl::InfinitePast())->instant, absl::UnixEpoch());
  EXPECT_FALSE(timetable.FirstAtOrAfter(absl::InfiniteFuture()).has_value());
}

TEST(TimetableTest, AListFiresAtItsInstants) {
  TimetableSpec spec;
  spec.times = {Utc("2026-11-21T00:00:00.000001Z"), Utc("2026-11-21T00:00:00.000002Z"),
                Utc("2026-12-24T18:00:00Z")};
  const Timetable timetable(spec);
  EXPECT_EQ(timetable.Enumerate(absl::InfinitePast(), absl::InfiniteFuture(), 10).size(), 3u);
  EXPECT_EQ(timetable.FirstAfter(spec.times[0])->instant, spec.times[1]);
  EXPECT_THAT(Show(timetable.EnumerateLast(absl::InfinitePast(), spec.times[2], 2)),
              ElementsAre("2026-11-21T00:00:00.000001", "2026-11-21T00:00:00.000002"));
  EXPECT_TRUE(timetable.Has("20261224T180000.000000Z", spec.times[2]));
  EXPECT_FALSE(timetable.Has("20261224T180000.000000Z", spec.times[1]));
}

TEST(TimetableTest, ExclusionsHoldForIntervalsByTheCivilTimeInTheZone) {
  TimetableSpec spec =
      IntervalSpec(absl::Minutes(30), Utc("2026-03-29T00:00:00Z"), {"* 2,3 * * *"});
  spec.zone = Zone::Load("Europe/Berlin").value();
  // The clock goes from 02:00 to 03:00 at 01:00Z; 04:00 is at 02:00Z.
  EXPECT_THAT(
      Show(Timetable(spec).Enumerate(Utc("2026-03-29T00:00:00Z"), Utc("2026-03-29T03:00:00Z"), 10)),
      ElementsAre("2026-03-29T00:00:00", "2026-03-29T00:30:00", "2026-03-29T02:00:00",
                  "2026-03-29T02:30:00"));
}

TEST(TimetableTest, DistantTimeThatIsNotExcludedIsFound) {
  const Timetable seconds(CronSpec("* * * * * *", "Europe/Berlin",
                                   {"0-29 * * * * * 2026-2050", "30-59 * * * * * 2026-2050"}));
  EXPECT_THAT(Show({*seconds.FirstAtOrAfter(Utc("2026-01-01T00:00:00Z"))}),
              ElementsAre("2050-12-31T23:00:00"));
  const Timetable interval(IntervalSpec(absl::Seconds(7), absl::UnixEpoch(),
                                        {"0-29 * * * * * 2026-2050", "30-59 * * * * * 2026-2050"}));
  EXPECT_GE(interval.FirstAtOrAfter(Utc("2026-01-01T00:00:00Z"))->instant,
            Utc("2051-01-01T00:00:00Z"));
  EXPECT_FALSE(Timetable(CronSpec("0 3 * * *", "Europe/Berlin", {"0 3 * * *"}))
                   .FirstAtOrAfter(absl::InfinitePast())
                   .has_value());
  EXPECT_FALSE(Timetable(IntervalSpec(absl::Seconds(1), absl::UnixEpoch(), {"* * * * *"}))
                   .FirstAtOrAfter(Utc("2026-01-01T00:00:00Z"))
                   .has_value());
}

// A gap shifted a time into the middle of excluded ones, and the exclusion hid it.
TEST(TimetableTest, ShiftedTimeAmongExcludedTimesIsFound) {
  TimetableSpec spec = CronSpec("5,30 2,3 * * *", "America/New_York", {"5,30 3 * * *"});
  spec.policy.gap = GapPolicy::kShift;
  EXPECT_THAT(
      Show(Timetable(spec).Enumerate(Utc("2026-03-08T06:00:00Z"), Utc("2026-03-08T09:00:00Z"), 10)),
      ElementsAre("2026-03-08T07:05:00", "2026-03-08T07:30:00"));
}

TEST(TimetableTest, EnumerateLastIsTheEndOfEnumerate) {
  std::mt19937_64 random(3);
  TimetableSpec list;
  for (int i = 0; i < 300; ++i)
    list.times.push_back(Utc("2026-01-01T00:00:00Z") +
                         absl::Microseconds(i < 200 ? i : i * 1000000));
  const std::vector<Timetable> timetables = {
      Timetable(CronSpec("* * * * * *")),
      Timetable(CronSpec("0 0 1 1 *", "Pacific/Apia")),
      Timetable(CronSpec("* * 3 * * * 2026", "Europe/Berlin")),
      Timetable(CronSpec("*/7 * * * *", "Australia/Lord_Howe", {"* * * * SUN"})),
      Timetable(IntervalSpec(absl::Seconds(11), absl::UnixEpoch())),
      Timetable(list)};
  for (const Timetable& timetable : timetables) {
    for (int round = 0; round < 40; ++round) {
      const absl::Time begin = Utc("2026-01-01T00:00:00Z") + absl::Seconds(random() % 100'000);
      const absl::Time end = begin + absl::Seconds(random() % 200'000);
      const size_t max = random() % 50;
      std::vector<Occurrence> all = timetable.Enumerate(begin, end, 1'000'000);
      if (all.size() > max) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(max));
      ASSERT_EQ(timetable.EnumerateLast(begin, end, max), all) << begin << " " << end;
    }
  }
}

// Many seconds, long ago: the search never lists far more than is needed.
TEST(TimetableTest, EnumerateLastFindsOccurrencesFarBackAmongMany) {
  const Timetable timetable(CronSpec("* * * * * * 2026"));
  const auto last = timetable.EnumerateLast(absl::InfinitePast(), absl::InfiniteFuture(), 2);
  EXPECT_THAT(Show(last), ElementsAre("2026-12-31T23:59:58", "2026-12-31T23:59:59"));
}

TEST(TimetableTest, CalendarOccurrencesAreNamedByCivilTime) {
  TimetableSpec spec = CronSpec("30 1 * * *", "America/New_York");
  spec.policy.fold = FoldPolicy::kBoth;
  const Timetable timetable(spec);
  const auto both =
      timetable.Enumerate(Utc("2026-11-01T00:00:00Z"), Utc("2026-11-01T12:00:00Z"), 10);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(timetable.IdOf(both[0]), "20261101T013000-0-America~New_York");
  EXPECT_EQ(timetable.IdOf(both[1]), "20261101T013000-1-America~New_York");
  EXPECT_TRUE(timetable.Has("20261101T013000-1-America~New_York", both[1].instant));
  EXPECT_FALSE(timetable.Has("20261101T013000-1-America~New_York", both[0].instant));
}

}  // namespace timetable_test
}  // namespace escapement::cron
