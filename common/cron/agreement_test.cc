// Finds the same occurrences in three ways: with the evaluator, through the index in windows, and
// with the test's own walk through every civil minute. Expressions, exclusions, zones, policies and
// window cuts are random.

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/cron/civil_match.h"
#include "common/cron/launch_expression.h"
#include "common/cron/testing/naive_cron.h"
#include "common/cron/timetable.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace agreement_test {

struct Case {
  NaiveCron naive;
  std::vector<NaiveCron> naive_exclusions;
  std::vector<std::string> exclusion_texts;
  std::optional<NaiveDaysOff> days_off;
  TimetableSpec spec;

  void SetDaysOff(NaiveDaysOff days) {
    spec.days_off = std::make_shared<const DaySet>(days.spec);
    spec.on_excluded = days.on_excluded;
    days_off = std::move(days);
  }

  std::string Show(absl::Time begin, absl::Time end) const {
    return absl::StrCat("\"", naive.text, "\" without \"", absl::StrJoin(exclusion_texts, "\", \""),
                        "\" in ", spec.zone.name(), " gap ", static_cast<int>(spec.policy.gap),
                        " fold ", static_cast<int>(spec.policy.fold),
                        days_off.has_value() ? " on_excluded " : "",
                        days_off.has_value() ? static_cast<int>(spec.on_excluded) : 0, " from ",
                        absl::FormatTime(begin), " to ", absl::FormatTime(end));
  }
};

Case RandomCase(std::mt19937_64& random) {
  Case c;
  c.naive = RandomCron(random);
  c.spec.cron = ParseCron(c.naive.text).value();
  c.spec.zone = Zone::Load(RandomZoneName(random)).value();
  c.spec.policy = RandomPolicy(random);
  for (int left = static_cast<int>(random() % 8) - 4; left > 0; --left) {
    c.naive_exclusions.push_back(RandomExclusion(random));
    c.exclusion_texts.push_back(c.naive_exclusions.back().text);
    c.spec.exclusions.push_back(ParseExclusion(c.exclusion_texts.back()).value());
  }
  return c;
}

struct Found {
  absl::Time instant;
  absl::CivilSecond civil;
  int fold;

  friend bool operator==(const Found&, const Found&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Found& f) {
    return out << f.instant << " " << f.civil << " " << f.fold;
  }
};

std::vector<Found> Of(const std::vector<Occurrence>& occurrences) {
  std::vector<Found> all;
  for (const Occurrence& o : occurrences) all.push_back({o.instant, o.civil, o.fold});
  return all;
}

std::vector<Found> Naive(const Case& c, absl::Time begin, absl::Time end) {
  std::vector<Found> all;
  for (const auto& [t, id] :
       NaiveOccurrences(c.naive, c.spec.zone.time_zone(), c.spec.policy, begin, end,
                        c.naive_exclusions, c.days_off.has_value() ? &*c.days_off : nullptr))
    all.push_back({t, id.first, id.second});
  return all;
}

bool Holds(const std::vector<PlaceRange>& ranges, const Place& place) {
  return std::count_if(ranges.begin(), ranges.end(), [&](const PlaceRange& range) {
           return range.first <= place && place <= range.last;
         }) == 1;
}

// The steps of an emitter: reads the places, asks the timetable about each child, and keeps the
// occurrences that belong to the child.
std::vector<Found> ThroughTheIndex(const Timetable& timetable, absl::Time begin, absl::Time end) {
  const std::vector<Place> children = timetable.ChildPlaces();
  EXPECT_LE(children.size(), static_cast<size_t>(kChildrenMax));
  EXPECT_TRUE(std::is_sorted(children.begin(), children.end()));
  std::set<LaunchExpression> in_use;
  for (const Place& place : children) in_use.insert(place.expression);
  const std::vector<PlaceRange> ranges = PlacesToRead(timetable.spec().zone, begin, end, in_use);
  const std::vector<Occurrence> proposed = timetable.Enumerate(begin, end, 1'000'000);
  std::vector<Found> found;
  for (const Place& place : children) {
    if (!Holds(ranges, place)) continue;
    for (const Occurrence& o : proposed) {
      if (timetable.PlaceOf(o) == place) found.push_back({o.instant, o.civil, o.fold});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.instant < b.instant; });
  return found;
}

TEST(AgreementTest, EvaluatorIndexAndWalkFindTheSameOccurrencesOnceEach) {
  std::mt19937_64 random(20261122);
  size_t occurrences = 0, gaps = 0, overlaps = 0, items = 0, excluding = 0, both = 0, years = 0,
         moved = 0;
  for (int round = 0; round < 6000; ++round) {
    Case c = RandomCase(random);
    const absl::Duration lengths[] = {absl::Seconds(90), absl::Hours(2), absl::Hours(60),
                                      absl::Hours(24 * 20)};
    // With many seconds the walk would take too long.
    const bool dense = c.naive.seconds.size() > 2;
    const absl::Duration length =
        lengths[random() % (dense ? 3 : 4)] * static_cast<double>(random() % 1000) / 1000;
    const absl::Time begin = RandomInstantNearChange(c.spec.zone.time_zone(), random) -
                             length * static_cast<double>(random() % 1000) / 1000 +
                             absl::Milliseconds(random() % 2 * (random() % 1000));
    const absl::Time end = begin + length;
    if (random() % 3 == 0) {
      c.SetDaysOff(RandomDaysOff(
          random, absl::CivilDay(absl::ToCivilSecond(begin, c.spec.zone.time_zone()))));
    }
    const Timetable timetable(c.spec);
    const std::vector<Found> expected = Naive(c, begin, end);
    const std::vector<Occurrence> evaluated = timetable.Enumerate(begin, end, 10'000'000);
    ASSERT_EQ(Of(evaluated), expected) << c.Show(begin, end);

    std::vector<Found> indexed;
    const int cuts = static_cast<int>(random() % 6);
    for (absl::Time t = begin; t < end;) {
      absl::Time until = end;
      if (cuts > 0) until = t + length / (2 * cuts) * static_cast<double>(random() % 1000) / 500;
      until = std::min(end, std::max(until, t + absl::Nanoseconds(1 + random() % 1'000'000'000)));
      const std::vector<Found> part = ThroughTheIndex(timetable, t, until);
      indexed.insert(indexed.end(), part.begin(), part.end());
      t = until;
    }
    ASSERT_EQ(indexed, expected) << c.Show(begin, end);

    const size_t last = random() % 5;
    const std::vector<Occurrence> latest = timetable.EnumerateLast(begin, end, last);
    ASSERT_EQ(Of(latest), std::vector<Found>(expected.end() - static_cast<std::ptrdiff_t>(
                                                                  std::min(last, expected.size())),
                                             expected.end()))
        << c.Show(begin, end);

    occurrences += expected.size();
    for (const Occurrence& o : evaluated) {
      gaps += o.note == Note::kGapFiredAfter || o.note == Note::kGapShifted;
      overlaps += o.note == Note::kFoldFirst || o.note == Note::kFoldLast;
    }
    if (expected.empty()) continue;
    items += !c.naive.day_items.empty() || !c.naive.weekday_items.empty();
    excluding += !c.naive_exclusions.empty();
    both += c.naive.both_days && c.naive.day_restricted;
    years += !c.naive.years.empty();
    moved += c.days_off.has_value() && c.spec.on_excluded != OnExcluded::kSkip;
  }
  EXPECT_GT(occurrences, 100'000u);
  EXPECT_GT(gaps, 60u);
  EXPECT_GT(overlaps, 300u);
  EXPECT_GT(items, 300u);
  EXPECT_GT(excluding, 300u);
  EXPECT_GT(both, 20u);
  EXPECT_GT(years, 60u);
  EXPECT_GT(moved, 200u);
}

// Business calendars over ten years in ten zones: weekends and holidays, some of them on the days
// of the schedule, and at changes of the offset.
TEST(AgreementTest, TenYearsOfWorkdaysInTenZones) {
  const char* zones[] = {"UTC",          "Europe/Berlin",       "America/New_York",
                         "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca",
                         "Pacific/Apia", "America/Sao_Paulo",   "America/St_Johns",
                         "Asia/Tehran"};
  struct Rhythm {
    const char* text;
    std::set<int> minutes, hours, days, months, weekdays;
    bool last_day, by_day, by_weekday;
  };
  const std::set<int> every_day = [] {
    std::set<int> days;
    for (int day = 1; day <= 31; ++day) days.insert(day);
    return days;
  }();
  const std::set<int> every_month = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                      every_weekday = {0, 1, 2, 3, 4, 5, 6};
  const Rhythm rhythms[] = {
      {"0 9 L * *", {0}, {9}, {}, every_month, every_weekday, true, true, false},
      {"30 2 1,15 * *", {30}, {2}, {1, 15}, every_month, every_weekday, false, true, false},
      {"15 0 * * SUN", {15}, {0}, every_day, every_month, {0}, false, false, true},
      {"0 1,23 25 3,12 *", {0}, {1, 23}, {25}, {3, 12}, every_weekday, false, true, false},
      {"45 2 * * *", {45}, {2}, every_day, every_month, every_weekday, false, false, false},
  };
  std::mt19937_64 random(66);
  size_t occurrences = 0;
  for (const char* zone : zones) {
    for (const Rhythm& rhythm : rhythms) {
      for (const OnExcluded rule : {OnExcluded::kSkip, OnExcluded::kNext, OnExcluded::kPrevious}) {
        Case c;
        c.naive.text = rhythm.text;
        c.naive.seconds = {0};
        c.naive.minutes = rhythm.minutes;
        c.naive.hours = rhythm.hours;
        c.naive.days = rhythm.days;
        c.naive.months = rhythm.months;
        c.naive.weekdays = rhythm.weekdays;
        c.naive.day_restricted = rhythm.by_day;
        c.naive.weekday_restricted = rhythm.by_weekday;
        if (rhythm.last_day) {
          c.naive.day_items.push_back([](absl::CivilDay day) {
            return absl::CivilMonth(day + 1) != absl::CivilMonth(day);
          });
        }
        c.spec.cron = ParseCron(rhythm.text).value();
        c.spec.zone = Zone::Load(zone).value();
        c.spec.policy = RandomPolicy(random);
        const absl::CivilDay first(2006, 6, 1);
        std::set<absl::CivilDay> holidays;
        for (int i = 0; i < 300; ++i) holidays.insert(first + static_cast<int>(random() % 3653));
        NaiveDaysOff off;
        for (const absl::CivilDay day : holidays)
          off.spec.dates.push_back(static_cast<int32_t>(day - absl::CivilDay(1970, 1, 1)));
        off.spec.rules = {ParseDayRule("* * SAT,SUN").value(), ParseDayRule("1 1,5 *").value(),
                          ParseDayRule("24-31 12 *").value()};
        off.has = [holidays](absl::CivilDay day) {
          const absl::Weekday weekday = absl::GetWeekday(day);
          return weekday == absl::Weekday::saturday || weekday == absl::Weekday::sunday ||
                 (day.day() == 1 && (day.month() == 1 || day.month() == 5)) ||
                 (day.day() >= 24 && day.month() == 12) || holidays.contains(day);
        };
        off.on_excluded = rule;
        c.SetDaysOff(std::move(off));
        const absl::Time begin = absl::FromCivil(first, c.spec.zone.time_zone());
        const absl::Time end = absl::FromCivil(first + 3653, c.spec.zone.time_zone());
        const Timetable timetable(c.spec);
        const std::vector<Found> expected = Naive(c, begin, end);
        ASSERT_EQ(Of(timetable.Enumerate(begin, end, 1'000'000)), expected) << c.Show(begin, end);
        std::vector<Found> indexed;
        for (absl::Time t = begin; t < end;) {
          const absl::Time until =
              std::min(end, t + absl::Hours(1) + absl::Seconds(random() % 2'000'000));
          const std::vector<Found> part = ThroughTheIndex(timetable, t, until);
          indexed.insert(indexed.end(), part.begin(), part.end());
          t = until;
        }
        ASSERT_EQ(indexed, expected) << c.Show(begin, end);
        occurrences += expected.size();
      }
    }
  }
  EXPECT_GT(occurrences, 80'000u);
}

// Days of all years, with searches in both directions.
TEST(AgreementTest, DaysAgreeInEveryYear) {
  std::mt19937_64 random(31);
  size_t days = 0;
  for (int round = 0; round < 600; ++round) {
    const NaiveCron naive = RandomCron(random);
    CronExpression e = ParseCron(naive.text).value();
    e.seconds = e.minutes = e.hours = 1;
    const absl::CivilDay begin = absl::CivilDay(1970, 1, 1) + static_cast<int>(random() % 84'000);
    const absl::CivilDay end =
        std::min(absl::CivilDay(2200, 1, 1), begin + static_cast<int>(random() % 500));
    std::vector<int64_t> expected, forwards, backwards;
    for (absl::CivilDay day = begin; day < end; ++day) {
      if (NaiveDayMatches(naive, day)) expected.push_back(ToLocalSeconds(absl::CivilSecond(day)));
    }
    const int64_t first = ToLocalSeconds(absl::CivilSecond(begin)),
                  last = ToLocalSeconds(absl::CivilSecond(end));
    for (auto t = FirstMatch(e, first, last); t.has_value(); t = FirstMatch(e, *t + 1, last))
      forwards.push_back(*t);
    for (auto t = LastMatch(e, first, last); t.has_value(); t = LastMatch(e, first, *t))
      backwards.insert(backwards.begin(), *t);
    ASSERT_EQ(forwards, expected) << naive.text << " from " << begin;
    ASSERT_EQ(backwards, expected) << naive.text << " from " << begin;
    days += expected.size();
  }
  EXPECT_GT(days, 20'000u);
}

// Fixed expressions over a year around unusual changes, in windows of a second to a day.
TEST(AgreementTest, UnusualChangesOfTheClock) {
  struct Change {
    const char* zone;
    absl::CivilSecond utc;
  };
  const Change changes[] = {
      {"Pacific/Apia", absl::CivilSecond(2011, 12, 30, 10, 0, 0)},         // no 30 December
      {"Pacific/Kwajalein", absl::CivilSecond(1993, 8, 21, 12, 0, 0)},     // no 21 August
      {"Australia/Lord_Howe", absl::CivilSecond(2026, 10, 3, 15, 30, 0)},  // half an hour
      {"Australia/Lord_Howe", absl::CivilSecond(2026, 4, 4, 15, 0, 0)},
      {"Antarctica/Troll", absl::CivilSecond(2026, 3, 29, 1, 0, 0)},  // two hours
      {"Antarctica/Troll", absl::CivilSecond(2026, 10, 25, 1, 0, 0)},
      {"Africa/Casablanca", absl::CivilSecond(2026, 2, 15, 2, 0, 0)},  // for Ramadan
      {"Africa/Casablanca", absl::CivilSecond(2026, 3, 22, 2, 0, 0)},
      {"America/Sao_Paulo", absl::CivilSecond(2018, 11, 4, 3, 0, 0)},  // at midnight
      {"Africa/Monrovia", absl::CivilSecond(1972, 1, 7, 0, 44, 30)},   // by a number of seconds
      {"UTC", absl::CivilSecond(2028, 2, 29, 0, 0, 0)},
      {"Asia/Tehran", absl::CivilSecond(2027, 12, 31, 20, 30, 0)},  // at the end of a year
  };
  const char* texts[] = {"0 * * * *",          "*/15 * * * *",
                         "30 2 * * *",         "0 0 * * *",
                         "15,45 0-3 * * *",    "0 0 L * *",
                         "0 2 * * SUN#L",      "0 0 30 12 *",
                         "0 12 29 2 *",        "0 0,2 1-7 * +SUN",
                         "30 1 15W,LW * ?",    "0 0 1 1 MON",
                         "0 30 1,2 * * * */2", "*/20 59,0 23,0,2 * * *",
                         "0 1 25-31 3,10 +SUN"};
  std::mt19937_64 random(5);
  for (const Change& change : changes) {
    for (const char* text : texts) {
      for (const GapPolicy gap :
           {GapPolicy::kAuto, GapPolicy::kSkip, GapPolicy::kFireAfter, GapPolicy::kShift}) {
        const FoldPolicy fold = static_cast<FoldPolicy>(random() % 4);
        TimetableSpec spec;
        spec.cron = ParseCron(text).value();
        spec.zone = Zone::Load(change.zone).value();
        spec.policy = {.gap = gap, .fold = fold};
        const Timetable timetable(spec);
        const absl::Time at = absl::FromCivil(change.utc, absl::UTCTimeZone());
        const absl::Time begin = at - absl::Hours(27), end = at + absl::Hours(27);
        std::vector<Found> windows;
        for (absl::Time t = begin; t < end;) {
          const absl::Duration most = random() % 4 == 0 ? absl::Hours(24) : absl::Minutes(20);
          const absl::Time until = std::min(
              end, t + absl::Seconds(1) + most * static_cast<double>(random() % 100) / 100);
          for (const Found& f : ThroughTheIndex(timetable, t, until)) windows.push_back(f);
          t = until;
        }
        ASSERT_EQ(windows, Of(timetable.Enumerate(begin, end, 100'000)))
            << text << " in " << change.zone << " gap " << static_cast<int>(gap);
        std::vector<Found> steps;  // found by next() alone
        for (auto o = timetable.FirstAtOrAfter(begin); o.has_value() && o->instant < end;
             o = timetable.FirstAfter(o->instant))
          steps.push_back({o->instant, o->civil, o->fold});
        ASSERT_EQ(steps, windows) << text << " in " << change.zone;
      }
    }
  }
}

}  // namespace agreement_test
}  // namespace escapement::cron
