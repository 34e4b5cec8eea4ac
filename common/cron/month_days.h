// Computes the days of a month that an expression's day fields match.
//
// Pure; a few bit operations. Masks of days have bit d for day d of the month, 1-31.

#ifndef COMMON_CRON_MONTH_DAYS_H_
#define COMMON_CRON_MONTH_DAYS_H_

#include <cstdint>

#include "common/cron/cron_expression.h"

namespace escapement::cron {

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

}  // namespace escapement::cron

#endif  // COMMON_CRON_MONTH_DAYS_H_
