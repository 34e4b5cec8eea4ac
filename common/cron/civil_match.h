// Finds the civil times that an expression matches and none of its exclusions does, without zones.
// Times are local seconds (zone.h).
//
// Pure, and exact for any exclusions. Days that the same exclusions match are decided together, and
// so are hours and minutes. So a search visits each month once, and few times of day.

#ifndef COMMON_CRON_CIVIL_MATCH_H_
#define COMMON_CRON_CIVIL_MATCH_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "common/cron/cron_expression.h"

namespace escapement::cron {

// The first (or: last) local second in [begin, end) that `expression` matches and none of
// `exclusions` does. Both bounds must be in the years of zone.h.
std::optional<int64_t> FirstAllowed(const CronExpression& expression,
                                    absl::Span<const CronExpression> exclusions, int64_t begin,
                                    int64_t end);
std::optional<int64_t> LastAllowed(const CronExpression& expression,
                                   absl::Span<const CronExpression> exclusions, int64_t begin,
                                   int64_t end);

// Computes the days of a month that an expression's day fields match.
//
// Pure; a few bit operations. Masks of days have bit d for day d of the month, 1-31.

struct MonthShape {
  int days = 31;          // 28-31
  int first_weekday = 0;  // weekday of the 1st; 0 is Sunday
};

inline uint32_t AllDays(MonthShape month) {
  return static_cast<uint32_t>(((uint64_t{1} << month.days) - 1) << 1);
}

// By one field alone, as if it were restricted, without regard to month and year.
uint32_t DaysByDayOfMonth(const CronExpression& expression, MonthShape month);
uint32_t DaysByWeekday(const CronExpression& expression, MonthShape month);

// By both day fields, and by their being restricted or not.
uint32_t DaysOfShape(const CronExpression& expression, MonthShape month);

// Finds the civil times that an expression matches, without zones. Times are local seconds
// (zone.h).
//
// Pure. The search reads one bit mask per month and skips years that do not match. So it ends after
// at most 2,760 steps (230 years).

inline constexpr int64_t kDaySeconds = 86400;

// The first (or: last) matching local second in [begin, end). Both must be in the years of zone.h.
std::optional<int64_t> FirstMatch(const CronExpression& expression, int64_t begin, int64_t end);
std::optional<int64_t> LastMatch(const CronExpression& expression, int64_t begin, int64_t end);

// True if the expression matches the local second.
bool Matches(const CronExpression& expression, int64_t local);

// The first local second at or after `local` that does not match; at most kLocalEnd. Each step
// skips a whole matching stretch (seconds of a minute, minutes of an hour, hours, days, months). So
// the search ends soon even if every second matches.
int64_t FirstUnmatched(const CronExpression& expression, int64_t local);

// The first (or: last) matching time of a day at or after (before) `time`, in seconds of the day;
// -1 if there is none.
int FirstTimeOfDay(const CronExpression& expression, int time);
int LastTimeOfDay(const CronExpression& expression, int time);

// A month of the calendar.
class CivilMonth {
 public:
  // The month of a day. `day` counts from 1970-01-01 and must not be negative.
  static CivilMonth Of(int64_t day);

  int year() const { return year_; }
  int month() const { return month_; }          // 1-12
  int64_t first_day() const { return first_; }  // its first day, counted from 1970-01-01
  int days() const { return shape_.days; }      // 28-31
  MonthShape shape() const { return shape_; }

  void ToNext();
  void ToPrevious();

  // Bit d: day d matches.
  uint32_t Matching(const CronExpression& expression) const;

  // Moves to the next month that begins before that day (or: the previous one that ends after it)
  // and has a matching day. Returns its matching days, or 0 if there is no such month.
  uint32_t ToNextMatching(const CronExpression& expression, int64_t end_day);
  uint32_t ToPreviousMatching(const CronExpression& expression, int64_t begin_day);

 private:
  CivilMonth(int year, int month, int64_t first_day);

  int year_, month_;
  int64_t first_;
  MonthShape shape_;
};

// True if every day of a matching month matches, judged by the sets of values alone.
bool EveryDay(const CronExpression& expression);

struct CivilDate {
  int year = 1970;
  int month = 1;    // 1-12
  int day = 1;      // 1-31
  int weekday = 4;  // 0 is Sunday
};
// `day` counts from 1970-01-01 and must not be negative.
CivilDate DateOfDay(int64_t day);

}  // namespace escapement::cron

#endif  // COMMON_CRON_CIVIL_MATCH_H_
