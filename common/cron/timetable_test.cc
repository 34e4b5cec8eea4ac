#include "common/cron/timetable.h"

#include <memory>
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

int32_t DayNumber(int year, int month, int day) {
  return static_cast<int32_t>(absl::CivilDay(year, month, day) - absl::CivilDay(1970, 1, 1));
}

// Weekends, Christmas Eve to New Year of 2026, but not Sunday the 27th.
std::shared_ptr<const DaySet> Weekends() {
  DaySet::Spec spec;
  spec.rules = {ParseDayRule("* * SAT,SUN").value(), ParseDayRule("24-31 12 * 2026").value()};
  spec.dates = {DayNumber(2027, 1, 1)};
  spec.except = {DayNumber(2026, 12, 27)};
  return std::make_shared<const DaySet>(std::move(spec));
}

std::vector<std::string> Workdays(const std::string& cron, OnExcluded on_excluded, size_t max) {
  TimetableSpec spec = CronSpec(cron);
  spec.days_off = Weekends();
  spec.on_excluded = on_excluded;
  return Show(Timetable(spec).Enumerate(Utc("2026-11-20T00:00:00Z"), absl::InfiniteFuture(), max));
}

TEST(TimetableTest, OccurrencesOnDaysOffAreLeftOutOrMove) {
  EXPECT_THAT(Workdays("0 9 L * *", OnExcluded::kSkip, 3),
              ElementsAre("2026-11-30T09:00:00", "2027-03-31T09:00:00", "2027-04-30T09:00:00"));
  EXPECT_THAT(Workdays("0 9 L * *", OnExcluded::kPrevious, 3),
              ElementsAre("2026-11-30T09:00:00", "2026-12-27T09:00:00", "2027-01-29T09:00:00"));
  EXPECT_THAT(Workdays("0 9 L * *", OnExcluded::kNext, 4),
              ElementsAre("2026-11-30T09:00:00", "2027-01-04T09:00:00", "2027-02-01T09:00:00",
                          "2027-03-01T09:00:00"));
  // Several days that move to one day make one occurrence for each time of day.
  EXPECT_THAT(Workdays("0 9,17 24-28 12 *", OnExcluded::kNext, 3),
              ElementsAre("2026-12-27T09:00:00", "2026-12-27T17:00:00", "2027-01-04T09:00:00"));
}

TEST(TimetableTest, ExclusionsAreForTimesBeforeTheyMove) {
  TimetableSpec spec = CronSpec("0 9,17 * * SAT", "UTC", {"* 9 28 11 *", "* 17 * * MON"});
  spec.days_off = Weekends();
  spec.on_excluded = OnExcluded::kNext;
  EXPECT_THAT(
      Show(Timetable(spec).Enumerate(Utc("2026-11-27T00:00:00Z"), absl::InfiniteFuture(), 3)),
      ElementsAre("2026-11-30T17:00:00", "2026-12-07T09:00:00", "2026-12-07T17:00:00"));
}

TEST(TimetableTest, NoOccurrenceMovesFurtherThanAYear) {
  for (const int days : {366, 367}) {
    TimetableSpec spec = CronSpec("0 0 9 1 1 * 2026");
    DaySet::Spec off;
    for (int i = 0; i < days; ++i) off.dates.push_back(DayNumber(2026, 1, 1) + i);
    spec.days_off = std::make_shared<const DaySet>(std::move(off));
    spec.on_excluded = OnExcluded::kNext;
    const auto found = Timetable(spec).FirstAtOrAfter(absl::InfinitePast());
    ASSERT_EQ(found.has_value(), days == 366);
    if (days == 366) {
      EXPECT_EQ(found->civil, absl::CivilSecond(2027, 1, 2, 9, 0, 0));
    }
  }
}

TEST(TimetableTest, IntervalsAndListsLeaveOutDaysOff) {
  TimetableSpec interval = IntervalSpec(absl::Hours(36), Utc("2026-11-27T00:00:00Z"));
  interval.days_off = Weekends();
  EXPECT_THAT(
      Show(Timetable(interval).Enumerate(Utc("2026-11-27T00:00:00Z"), absl::InfiniteFuture(), 3)),
      ElementsAre("2026-11-27T00:00:00", "2026-11-30T00:00:00", "2026-12-01T12:00:00"));
  TimetableSpec list;
  list.times = {Utc("2026-11-28T23:59:59Z"), Utc("2026-11-30T00:00:00Z")};
  list.days_off = Weekends();
  EXPECT_THAT(Show(Timetable(list).Enumerate(absl::InfinitePast(), absl::InfiniteFuture(), 3)),
              ElementsAre("2026-11-30T00:00:00"));
}

TEST(TimetableTest, NothingFiresIfAllDaysAreOff) {
  DaySet::Spec every_day;
  every_day.rules = {ParseDayRule("* * *").value()};
  TimetableSpec spec = CronSpec("* * * * *");
  spec.days_off = std::make_shared<const DaySet>(std::move(every_day));
  for (const OnExcluded rule : {OnExcluded::kSkip, OnExcluded::kNext, OnExcluded::kPrevious}) {
    spec.on_excluded = rule;
    EXPECT_FALSE(Timetable(spec).FirstAtOrAfter(absl::InfinitePast()).has_value());
    EXPECT_TRUE(
        Timetable(spec).EnumerateLast(absl::InfinitePast(), absl::InfiniteFuture(), 1).empty());
  }
}

TEST(TimetableTest, RulesOfDaysHaveThreeOrFourFields) {
  EXPECT_TRUE(ParseDayRule(" 25,26  DEC\t* ").ok());
  EXPECT_TRUE(ParseDayRule("L * * 2026-2030").ok());
  EXPECT_FALSE(ParseDayRule("* *").ok());
  EXPECT_FALSE(ParseDayRule("* * * * *").ok());
  EXPECT_FALSE(ParseDayRule("32 * *").ok());
  EXPECT_FALSE(ParseDayRule("@daily").ok());
  EXPECT_FALSE(ParseDayRule("").ok());
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
