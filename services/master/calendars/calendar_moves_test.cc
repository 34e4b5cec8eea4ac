#include "services/master/calendars/calendar_moves.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cron/cron_expression.h"
#include "common/cron/day_set.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/codec/calendar_codec.h"

namespace escapement::master {
namespace calendar_moves_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

cron::Timetable Table(const std::string& cron, cron::OnExcluded rule,
                      const std::vector<std::string>& days_off, const std::string& zone = "UTC") {
  cron::DaySet::Spec days;
  for (const std::string& day : days_off) days.dates.push_back(*ParseDay(day));
  cron::TimetableSpec spec;
  spec.cron = cron::ParseCron(cron).value();
  spec.zone = cron::Zone::Load(zone).value();
  spec.days_off = std::make_shared<const cron::DaySet>(std::move(days));
  spec.on_excluded = rule;
  return cron::Timetable(std::move(spec));
}

std::string TextOf(const std::optional<absl::Time>& time) {
  return time ? absl::FormatTime("%m-%dT%H:%M", *time, absl::UTCTimeZone()) : "-";
}

// The moves of the year 2027.
std::vector<std::string> Moves(const cron::Timetable& former, const cron::Timetable& next,
                               bool* more = nullptr) {
  MoveSearch search(former, next, absl::FromCivil(absl::CivilDay(2027), absl::UTCTimeZone()),
                    absl::FromCivil(absl::CivilDay(2028), absl::UTCTimeZone()));
  while (search.Step()) EXPECT_LE(search.work(), 2 * kMovesOfDayMax);
  std::vector<std::string> moves;
  for (const OccurrenceMove& move : search.TakeMoves())
    moves.push_back(absl::StrCat(TextOf(move.from), ">", TextOf(move.to)));
  if (more != nullptr) *more = search.more();
  return moves;
}

TEST(MoveSearchTest, SkippedDaysTakeAwayAndAdd) {
  EXPECT_THAT(Moves(Table("0 9 * * *", cron::OnExcluded::kSkip, {"2027-03-01", "2027-05-01"}),
                    Table("0 9 * * *", cron::OnExcluded::kSkip, {"2027-03-01", "2027-04-01"})),
              ElementsAre("04-01T09:00>-", "->05-01T09:00"));
}

TEST(MoveSearchTest, OccurrencesMoveAlongRunsOfDays) {
  // The first Monday of March is the 1st.
  const char kMonthly[] = "0 9 1 * *";
  EXPECT_THAT(Moves(Table(kMonthly, cron::OnExcluded::kNext, {"2027-03-01"}),
                    Table(kMonthly, cron::OnExcluded::kNext, {"2027-03-01", "2027-03-02"})),
              ElementsAre("03-02T09:00>03-03T09:00"));
  EXPECT_THAT(Moves(Table(kMonthly, cron::OnExcluded::kPrevious, {"2027-02-28", "2027-03-01"}),
                    Table(kMonthly, cron::OnExcluded::kPrevious, {"2027-03-01"})),
              ElementsAre("02-27T09:00>02-28T09:00"));
  // An occurrence that moves onto another one is one with it.
  EXPECT_THAT(Moves(Table("0 9 1,2 * *", cron::OnExcluded::kNext, {}),
                    Table("0 9 1,2 * *", cron::OnExcluded::kNext, {"2027-03-01"})),
              ElementsAre("03-01T09:00>-"));
}

TEST(MoveSearchTest, MovesBeyondTheBeginAreFound) {
  const char kMonthly[] = "0 9 31 12 *";
  EXPECT_THAT(Moves(Table(kMonthly, cron::OnExcluded::kNext, {}),
                    Table(kMonthly, cron::OnExcluded::kNext, {"2026-12-31"})),
              ElementsAre("->01-01T09:00"));
  EXPECT_THAT(Moves(Table("0 9 1 1 *", cron::OnExcluded::kPrevious, {}),
                    Table("0 9 1 1 *", cron::OnExcluded::kPrevious, {"2028-01-01"})),
              ElementsAre("->12-31T09:00"));
}

TEST(MoveSearchTest, DaysAreThoseOfTheZone) {
  EXPECT_THAT(Moves(Table("30 0 * * *", cron::OnExcluded::kSkip, {}, "Asia/Tokyo"),
                    Table("30 0 * * *", cron::OnExcluded::kSkip, {"2027-03-02"}, "Asia/Tokyo")),
              ElementsAre("03-01T15:30>-"));
}

TEST(MoveSearchTest, EqualDaysMoveNothing) {
  EXPECT_THAT(Moves(Table("* * * * *", cron::OnExcluded::kNext, {"2027-03-02"}),
                    Table("* * * * *", cron::OnExcluded::kNext, {"2027-03-02"})),
              IsEmpty());
}

TEST(MoveSearchTest, ManyMovesAreCut) {
  bool more = false;
  EXPECT_EQ(Moves(Table("* * * * *", cron::OnExcluded::kSkip, {}),
                  Table("* * * * *", cron::OnExcluded::kSkip, {"2027-03-02"}), &more)
                .size(),
            kMovesOfScheduleMax);
  EXPECT_TRUE(more);
}

}  // namespace calendar_moves_test
}  // namespace escapement::master
