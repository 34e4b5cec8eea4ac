// Which civil times an expression matches, zones left aside. Times are local seconds (zone.h).
//
// Pure. The search looks at one bit mask per month and jumps over years that do not match, so it
// ends after at most 2,760 steps (230 years).

#ifndef COMMON_CRON_CIVIL_MATCH_H_
#define COMMON_CRON_CIVIL_MATCH_H_

#include <cstdint>
#include <optional>

#include "common/cron/cron_expression.h"
#include "common/cron/month_days.h"

namespace escapement::cron {

// The first / last matching local second in [begin, end), within the years of zone.h.
std::optional<int64_t> FirstMatch(const CronExpression& expression, int64_t begin, int64_t end);
std::optional<int64_t> LastMatch(const CronExpression& expression, int64_t begin, int64_t end);

// Does the local second match?
bool Matches(const CronExpression& expression, int64_t local);

// The first local second at or after `local` that does not match; at most kLocalEnd. Found in steps
// of whole stretches that match (seconds of a minute, minutes of an hour, hours, days, months), so
// that it ends soon also where every second matches.
int64_t FirstUnmatched(const CronExpression& expression, int64_t local);

// The first / last matching time of a day at or after / at or before `time` (seconds of the day);
// -1 if there is none.
int FirstTimeOfDay(const CronExpression& expression, int time);
int LastTimeOfDay(const CronExpression& expression, int time);

// A month of the calendar.
class CivilMonth {
 public:
  // The month that holds a day; `day` counts from 1970-01-01 and is not negative.
  static CivilMonth Of(int64_t day);

  int year() const { return year_; }
  int month() const { return month_; }          // 1-12
  int64_t first_day() const { return first_; }  // its 1st, counted from 1970-01-01
  int days() const { return shape_.days; }      // 28-31
  MonthShape shape() const { return shape_; }

  void ToNext();
  void ToPrevious();

  // Bit d: day d matches.
  uint32_t Matching(const CronExpression& expression) const;

  // To the next / previous month with a day that matches, and its days, where it begins before /
  // ends after that day; else 0.
  uint32_t ToNextMatching(const CronExpression& expression, int64_t end_day);
  uint32_t ToPreviousMatching(const CronExpression& expression, int64_t begin_day);

 private:
  CivilMonth(int year, int month, int64_t first_day);

  int year_, month_;
  int64_t first_;
  MonthShape shape_;
};

// True if every day of a matching month matches, as far as the fields' sets of values show.
bool EveryDay(const CronExpression& expression);

struct CivilDate {
  int year = 1970;
  int month = 1;    // 1-12
  int day = 1;      // 1-31
  int weekday = 4;  // 0 is Sunday
};
// `day` counts from 1970-01-01 and is not negative.
CivilDate DateOfDay(int64_t day);

}  // namespace escapement::cron

#endif  // COMMON_CRON_CIVIL_MATCH_H_
