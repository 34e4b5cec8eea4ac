#include "common/cron/month_days.h"

namespace escapement::cron {
namespace {

constexpr uint64_t kWeeks = 0x10204081;  // a week's mask times this is the mask of five weeks

// Bit n becomes bit 31 - n.
constexpr uint32_t Reverse(uint32_t x) {
  x = (x & 0x55555555) << 1 | ((x >> 1) & 0x55555555);
  x = (x & 0x33333333) << 2 | ((x >> 2) & 0x33333333);
  x = (x & 0x0f0f0f0f) << 4 | ((x >> 4) & 0x0f0f0f0f);
  x = (x & 0x00ff00ff) << 8 | ((x >> 8) & 0x00ff00ff);
  return x << 16 | x >> 16;
}

// Bit n means n days before the last day; it becomes bit days - n.
uint32_t FromTheEnd(uint32_t before_last, MonthShape month) {
  return (Reverse(before_last) >> (31 - month.days)) & AllDays(month);
}

// Bits 0-6 are weekdays. Sets bit 1 + i of the result if the weekday of day 1 + i is among them.
uint32_t EveryWeek(uint64_t weekdays, MonthShape month) {
  return static_cast<uint32_t>(((weekdays * kWeeks | weekdays << 35) >> month.first_weekday) << 1);
}

// Moves each day to the nearest Monday to Friday of the same month. A Saturday moves back one day,
// but Saturday the 1st becomes the 3rd. A Sunday moves on one day, but a Sunday at the end of the
// month moves back two days.
uint32_t NearestWeekdays(uint32_t days, MonthShape month) {
  const uint32_t sundays = days & EveryWeek(1, month), saturdays = days & EveryWeek(1 << 6, month);
  const uint32_t last = uint32_t{1} << month.days;
  uint32_t nearest = days & ~sundays & ~saturdays;
  nearest |= (saturdays & ~uint32_t{2}) >> 1 | (saturdays & 2) << 2;
  nearest |= (sundays & ~last) << 1 | (sundays & last) >> 2;
  return nearest;
}

// Bits 7 × (k - 1) + d are the k-th weekdays d.
uint32_t NthWeekdays(uint64_t nth, MonthShape month) {
  // Each block of seven days has each weekday once, so every block is rotated by the first weekday.
  const int turn = month.first_weekday;
  const uint64_t stay = (0x7fu >> turn) * kWeeks;
  const uint64_t turned = ((nth >> turn) & stay) | ((nth << (7 - turn)) & ~stay);
  return static_cast<uint32_t>((turned & 0x7fffffff) << 1);
}

}  // namespace

uint32_t DaysByDayOfMonth(const CronExpression& e, MonthShape month) {
  const uint32_t all = AllDays(month);
  uint32_t days = e.days_of_month & all;
  if ((e.days_before_last | e.weekdays_near_day | e.weekdays_near_last) == 0) return days;
  days |= FromTheEnd(e.days_before_last, month);
  const uint32_t near = (e.weekdays_near_day & all) | FromTheEnd(e.weekdays_near_last, month);
  return days | NearestWeekdays(near, month);
}

uint32_t DaysByWeekday(const CronExpression& e, MonthShape month) {
  uint32_t days = EveryWeek(e.days_of_week, month);
  if (e.weekdays_of_month != 0) {
    days |= NthWeekdays(e.weekdays_of_month & ((uint64_t{1} << 35) - 1), month);
    days |= EveryWeek(e.weekdays_of_month >> 35, month) & ~uint32_t{0} << (month.days - 6);
  }
  return days & AllDays(month);
}

uint32_t DaysOfShape(const CronExpression& e, MonthShape month) {
  if (!e.day_of_week_restricted)
    return e.day_of_month_restricted ? DaysByDayOfMonth(e, month) : AllDays(month);
  const uint32_t by_weekday = DaysByWeekday(e, month);
  if (!e.day_of_month_restricted) return by_weekday;
  const uint32_t by_day = DaysByDayOfMonth(e, month);
  return e.both_days_match ? by_day & by_weekday : by_day | by_weekday;
}

}  // namespace escapement::cron
