#include "common/cron/launch_expression.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cron/evaluator.h"
#include "common/cron/testing/naive_cron.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace launch_expression_test {

using ::testing::ElementsAre;

CronExpression Cron(const std::string& text) { return ParseCron(text).value(); }

std::vector<std::string> Show(const std::vector<Place>& places) {
  std::vector<std::string> texts;
  for (const Place& place : places) {
    const auto part = [](uint8_t v) { return v == kAnyPlace ? std::string("*") : absl::StrCat(v); };
    texts.push_back(absl::StrCat(DescribeLaunchExpression(place), " ", part(place.hour), ":",
                                 part(place.minute), place.expression.seconds ? " s" : ""));
  }
  return texts;
}

TEST(LaunchExpressionTest, AScheduleHasOneChildForEachTrigger) {
  EXPECT_THAT(Show(ChildPlaces(Cron("0 3,6,9 * * *"))),
              ElementsAre("H:3 3:0", "H:6 6:0", "H:9 9:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 25 12 *"))), ElementsAre("MM:12-25 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("30 8 * * MON,FRI"))), ElementsAre("W:MON 8:30", "W:FRI 8:30"));
  EXPECT_THAT(Show(ChildPlaces(Cron("30 8 * 6 MON"))), ElementsAre("MW:6-MON 8:30"));
  EXPECT_THAT(Show(ChildPlaces(Cron("30 8 15 * *"))), ElementsAre("M:15 8:30"));
  EXPECT_THAT(Show(ChildPlaces(Cron("30 8 * 1,7 *"))), ElementsAre("MM:1-* 8:30", "MM:7-* 8:30"));
  EXPECT_THAT(Show(ChildPlaces(Cron("30 8 13 * FRI"))), ElementsAre("M:13 8:30", "W:FRI 8:30"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 30,31 2,4 *"))), ElementsAre("MM:4-30 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("5 30 8 * * *"))), ElementsAre("H:8 8:30 s"));
}

TEST(LaunchExpressionTest, MovingDaysHavePlacesOnAllPossibleDays) {
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 L * *"))),
              ElementsAre("MM:1-31 0:0", "MM:2-28 0:0", "MM:2-29 0:0", "MM:3-31 0:0", "MM:4-30 0:0",
                          "MM:5-31 0:0", "MM:6-30 0:0", "MM:7-31 0:0", "MM:8-31 0:0", "MM:9-30 0:0",
                          "MM:10-31 0:0", "MM:11-30 0:0", "MM:12-31 0:0"))
      << "with the month, so that no place is read in vain";
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 L-1 2 *"))), ElementsAre("MM:2-27 0:0", "MM:2-28 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 15W * *"))),
              ElementsAre("M:14 0:0", "M:15 0:0", "M:16 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 1W 6 *"))),
              ElementsAre("MM:6-1 0:0", "MM:6-2 0:0", "MM:6-3 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 LW 4 *"))),
              ElementsAre("MM:4-28 0:0", "MM:4-29 0:0", "MM:4-30 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 * * TUE#2,5L"))), ElementsAre("W:TUE 0:0", "W:FRI 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 * 3,6 TUE#2"))),
              ElementsAre("MW:3-TUE 0:0", "MW:6-TUE 0:0"));
  EXPECT_TRUE(ChildPlaces(Cron("0 0 31W 2 *")).empty());
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 0 1 1 * 2030"))), ElementsAre("MM:1-1 0:0"));
}

TEST(LaunchExpressionTest, RarerDayFieldMakesThePlacesIfBothMustMatch) {
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 13 * +FRI"))), ElementsAre("M:13 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 1-7 * +MON"))), ElementsAre("W:MON 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 1-7 6 +MON"))), ElementsAre("MW:6-MON 0:0"));
  EXPECT_EQ(ChildPlaces(Cron("0 0 L * +MON-FRI")).size(), 13u);
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 1-31 * +MON"))), ElementsAre("W:MON 0:0"));
  EXPECT_THAT(Show(ChildPlaces(Cron("0 0 1-31 * MON"))), ElementsAre("H:0 0:0"));
}

TEST(LaunchExpressionTest, TimesOfDayAreSplitUpTo24) {
  EXPECT_THAT(Show(ChildPlaces(Cron("* * * * *"))), ElementsAre("H:* *:*"));
  EXPECT_THAT(Show(ChildPlaces(Cron("*/30 * * * *"))), ElementsAre("H:* *:0", "H:* *:30"));
  EXPECT_THAT(Show(ChildPlaces(Cron("* 3 * * *"))), ElementsAre("H:3 3:*"));
  EXPECT_EQ(ChildPlaces(Cron("0,20,40 1-8 * * *")).size(), 24u);
  EXPECT_THAT(Show(ChildPlaces(Cron("0,20,40 1-9 * * *"))),
              ElementsAre("H:* *:0", "H:* *:20", "H:* *:40"));
  for (const char* text : {"1-24 1-23 1-31 1-11 1", "0 1-23 1-31 1-11 *", "1-59 1-23 * 1-11 0-5",
                           "1-24 1 L,L-1,L-2,15W,L-20W,1-25 1-11 1#1,2-6"}) {
    EXPECT_LE(ChildPlaces(Cron(text)).size(), static_cast<size_t>(kChildrenMax)) << text;
  }
}

TEST(LaunchExpressionTest, WindowWithoutFullMinuteReadsOnlyClassesWithSeconds) {
  const auto of = [](const char* text) { return ChildPlaces(Cron(text)).front().expression; };
  const absl::Time noon =
      absl::FromCivil(absl::CivilSecond(2026, 11, 21, 12, 0, 0), absl::UTCTimeZone());
  const Zone utc = Zone::Utc();
  EXPECT_TRUE(
      PlacesToRead(utc, noon + absl::Seconds(1), noon + absl::Seconds(60), {of("0 12 * * *")})
          .empty());
  EXPECT_FALSE(
      PlacesToRead(utc, noon + absl::Seconds(59), noon + absl::Seconds(61), {of("0 12 * * *")})
          .empty());
  EXPECT_FALSE(
      PlacesToRead(utc, noon + absl::Seconds(1), noon + absl::Seconds(2), {of("9 0 12 * * *")})
          .empty());
  EXPECT_TRUE(PlacesToRead(utc, noon, noon + absl::Hours(1), {of("0 12 22 * *")}).empty());
}

bool Holds(const std::vector<PlaceRange>& ranges, const Place& place) {
  return std::count_if(ranges.begin(), ranges.end(), [&](const PlaceRange& range) {
           return range.first <= place && place <= range.last;
         }) == 1;
}

// The steps of an emitter: reads the places, asks the evaluator about each child, and keeps the
// occurrences that belong to the child.
std::vector<Occurrence> ThroughTheIndex(const CronExpression& e, const Zone& zone,
                                        const DstPolicy& policy, absl::Time begin, absl::Time end,
                                        size_t& rows_read) {
  std::set<LaunchExpression> in_use;
  const std::vector<Place> children = ChildPlaces(e);
  for (const Place& place : children) in_use.insert(place.expression);
  const std::vector<PlaceRange> ranges = PlacesToRead(zone, begin, end, in_use);
  std::vector<Occurrence> occurrences;
  for (const Place& place : children) {
    if (!Holds(ranges, place)) continue;
    ++rows_read;
    for (const Occurrence& o : Enumerate(e, zone, policy, begin, end, 1'000'000)) {
      if (CanonicalPlace(e, o.civil) == place) occurrences.push_back(o);
    }
  }
  std::sort(occurrences.begin(), occurrences.end(),
            [](const Occurrence& a, const Occurrence& b) { return a.instant < b.instant; });
  return occurrences;
}

// Times of day that fall into a gap, in short windows: the index finds them where each policy moves
// them.
TEST(LaunchExpressionTest, TimeMovedByAGapIsFoundInItsNewWindow) {
  std::mt19937_64 random(7);
  size_t moved = 0;
  for (int round = 0; round < 300; ++round) {
    const Zone zone = Zone::Load(RandomZoneName(random)).value();
    const auto change = zone.NextChange(absl::FromUnixSeconds(random() % 2'000'000'000));
    if (!change || change->after <= change->before) continue;
    const absl::Duration length = change->after - change->before;
    const absl::CivilSecond skipped = FromLocalSeconds(
        absl::ToUnixSeconds(change->instant) + absl::ToInt64Seconds(change->before) +
        static_cast<int64_t>(random() % absl::ToInt64Seconds(length)));
    const CronExpression e =
        Cron(absl::StrCat(skipped.second(), " ", skipped.minute(), " ", skipped.hour(), " * * *"));
    for (const GapPolicy gap : {GapPolicy::kFireAfter, GapPolicy::kShift}) {
      const DstPolicy policy{.gap = gap};
      std::vector<Occurrence> found;
      size_t rows_read = 0;
      absl::Time end = change->instant - absl::Hours(1);
      while (end < change->instant + length + absl::Hours(1)) {
        const absl::Time begin = std::exchange(end, end + absl::Minutes(5));
        for (const Occurrence& o : ThroughTheIndex(e, zone, policy, begin, end, rows_read)) {
          found.push_back(o);
          moved += o.civil == skipped;
        }
      }
      ASSERT_EQ(found, Enumerate(e, zone, policy, change->instant - absl::Hours(1), end, 100'000))
          << zone.name() << " " << skipped;
    }
  }
  EXPECT_GT(moved, 100u);
}

// Windows of one second, as the emitter has them, read about as many children as are due. Covers
// `days` days from 2026-01-01 on. For an expression without seconds only full minutes count,
// because other windows read nothing.
struct Read {
  size_t rows = 0, due = 0;
};
Read RowsRead(const std::string& text, int days) {
  const CronExpression e = Cron(text);
  const Zone zone = Zone::Load("Europe/Berlin").value();
  const absl::Time begin = absl::FromCivil(absl::CivilSecond(2026, 1, 1), zone.time_zone());
  std::set<LaunchExpression> in_use;
  const std::vector<Place> children = ChildPlaces(e);
  for (const Place& place : children) in_use.insert(place.expression);
  Read read;
  read.due = Enumerate(e, zone, {}, begin, begin + absl::Hours(24 * days), 1'000'000).size();
  for (int minute = 0; minute < days * 1440; minute += 1) {
    const absl::Time t = begin + absl::Minutes(minute);
    const std::vector<PlaceRange> ranges = PlacesToRead(zone, t, t + absl::Seconds(1), in_use);
    for (const Place& place : children) read.rows += Holds(ranges, place);
  }
  return read;
}

TEST(LaunchExpressionTest, RowsReadFollowTheRowsDue) {
  for (const char* text :
       {"0 3,6,9 * * *", "*/5 * * * *", "* * * * *", "30 8 * * SAT", "0 0 13 * FRI", "0 0 L * *",
        "0 9 1,15 * *", "30 7 * 6-8 MON-FRI", "0 */2 * * *", "0 0 25 12 *"}) {
    const Read read = RowsRead(text, 365);
    EXPECT_GT(read.due, 0u) << text;
    EXPECT_LE(static_cast<double>(read.rows), 1.2 * static_cast<double>(read.due)) << text;
  }
  // Days that move are read on the days on which they can fall.
  EXPECT_LE(RowsRead("0 0 15W * *", 365).rows, 36u);
  EXPECT_LE(RowsRead("0 0 * * TUE#2", 365).rows, 53u);
  EXPECT_LE(RowsRead("0 0 13 * +FRI", 365).rows, 12u);
}

TEST(LaunchExpressionTest, EverySecondIsReadWhenItIsDue) {
  const Zone zone = Zone::Load("Europe/Berlin").value();
  const absl::Time begin =
      absl::FromCivil(absl::CivilSecond(2026, 11, 21, 3, 0, 0), zone.time_zone());
  for (const char* text : {"* * * * * *", "0 3 * * *", "30 0 3 * * *"}) {
    size_t rows_read = 0, due = 0;
    for (int second = 0; second < 3600; ++second) {
      const absl::Time t = begin + absl::Seconds(second);
      due += !ThroughTheIndex(Cron(text), zone, {}, t, t + absl::Seconds(1), rows_read).empty();
    }
    EXPECT_GT(due, 0u) << text;
    // A place is no finer than a minute.
    EXPECT_LE(rows_read, std::max<size_t>(due, 60)) << text;
  }
}

}  // namespace launch_expression_test
}  // namespace escapement::cron
