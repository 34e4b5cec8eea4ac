#include "common/cron/civil_match.h"

#include <algorithm>
#include <bit>

#include "common/cron/zone.h"

namespace escapement::cron {
namespace {

constexpr int64_t kDaySeconds = 86400;

constexpr bool IsLeap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

constexpr int DaysInMonth(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeap(year) ? 29 : kDays[month - 1];
}

// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (civil_from_days), for days from
// 1970 on.
CivilDate CivilFromDay(int64_t day) {
  const int64_t shifted = day + 719468;
  const int64_t era = shifted / 146097;
  const int doe = static_cast<int>(shifted - era * 146097);
  const int yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int mp = (5 * doy + 2) / 153;
  CivilDate date;
  date.day = doy - (153 * mp + 2) / 5 + 1;
  date.month = mp < 10 ? mp + 3 : mp - 9;
  date.year = static_cast<int>(yoe + era * 400) + (date.month <= 2);
  date.weekday = static_cast<int>((day + 4) % 7);
  return date;
}

// Bits 1..31: the days of this month that match. `first_weekday` is that of the 1st.
uint32_t MatchingDays(const CronExpression& e, int year, int month, int first_weekday) {
  if (((e.months >> month) & 1) == 0) return 0;
  const uint32_t exists =
      static_cast<uint32_t>(((uint64_t{1} << DaysInMonth(year, month)) - 1) << 1);
  if (!e.day_of_month_restricted && !e.day_of_week_restricted) return exists;
  uint32_t days = 0;
  if (e.day_of_month_restricted) days = e.days_of_month;
  if (e.day_of_week_restricted) {
    const uint64_t week = e.days_of_week;
    const uint64_t weeks =
        (week | week << 7 | week << 14 | week << 21 | week << 28 | week << 35) >> first_weekday;
    days |= static_cast<uint32_t>(weeks << 1);  // bit 0 of `weeks` is the 1st
  }
  return days & exists;
}

int Lowest(uint64_t mask) { return std::countr_zero(mask); }
int Highest(uint64_t mask) { return 63 - std::countl_zero(mask); }
uint64_t From(uint64_t mask, int bit) { return bit > 63 ? 0 : mask & (~uint64_t{0} << bit); }
uint64_t UpTo(uint64_t mask, int bit) { return bit < 0 ? 0 : mask & (~uint64_t{0} >> (63 - bit)); }

int FirstTime(const CronExpression& e) {
  return Lowest(e.hours) * 3600 + Lowest(e.minutes) * 60 + Lowest(e.seconds);
}
int LastTime(const CronExpression& e) {
  return Highest(e.hours) * 3600 + Highest(e.minutes) * 60 + Highest(e.seconds);
}

// The first matching time of day at or after `from` (seconds of the day), or -1.
int TimeFrom(const CronExpression& e, int from) {
  const int h = from / 3600, m = from / 60 % 60, s = from % 60;
  if ((e.hours >> h) & 1) {
    if ((e.minutes >> m) & 1) {
      if (const uint64_t rest = From(e.seconds, s)) return h * 3600 + m * 60 + Lowest(rest);
    }
    if (const uint64_t rest = From(e.minutes, m + 1))
      return h * 3600 + Lowest(rest) * 60 + Lowest(e.seconds);
  }
  if (const uint64_t rest = From(e.hours, h + 1)) {
    return Lowest(rest) * 3600 + Lowest(e.minutes) * 60 + Lowest(e.seconds);
  }
  return -1;
}

// The last matching time of day at or before `to`, or -1.
int TimeUpTo(const CronExpression& e, int to) {
  const int h = to / 3600, m = to / 60 % 60, s = to % 60;
  if ((e.hours >> h) & 1) {
    if ((e.minutes >> m) & 1) {
      if (const uint64_t rest = UpTo(e.seconds, s)) return h * 3600 + m * 60 + Highest(rest);
    }
    if (const uint64_t rest = UpTo(e.minutes, m - 1))
      return h * 3600 + Highest(rest) * 60 + Highest(e.seconds);
  }
  if (const uint64_t rest = UpTo(e.hours, h - 1)) {
    return Highest(rest) * 3600 + Highest(e.minutes) * 60 + Highest(e.seconds);
  }
  return -1;
}

}  // namespace

CivilDate DateOfDay(int64_t day) { return CivilFromDay(day); }

bool EveryDay(const CronExpression& e) {
  return (!e.day_of_month_restricted && !e.day_of_week_restricted) ||
         (e.day_of_month_restricted && e.days_of_month == kEveryDayOfMonthMask) ||
         (e.day_of_week_restricted && e.days_of_week == kEveryWeekdayMask);
}

bool DayMatches(const CronExpression& e, int month, int day, int weekday) {
  if (((e.months >> month) & 1) == 0) return false;
  if (EveryDay(e)) return true;
  return (e.day_of_month_restricted && ((e.days_of_month >> day) & 1)) ||
         (e.day_of_week_restricted && ((e.days_of_week >> weekday) & 1));
}

bool Matches(const CronExpression& e, int64_t local) {
  if (local < kLocalBegin || local >= kLocalEnd) return false;
  const int64_t day = local / kDaySeconds;
  const int time = static_cast<int>(local % kDaySeconds);
  if (((e.hours >> (time / 3600)) & 1) == 0 || ((e.minutes >> (time / 60 % 60)) & 1) == 0 ||
      ((e.seconds >> (time % 60)) & 1) == 0)
    return false;
  const CivilDate date = CivilFromDay(day);
  return DayMatches(e, date.month, date.day, date.weekday);
}

int64_t FirstUnmatched(const CronExpression& e, int64_t local) {
  // Where all lower fields are full, whole minutes, hours and days match at once.
  const int64_t step = e.seconds != kEverySecondMask   ? 1
                       : e.minutes != kEveryMinuteMask ? 60
                       : e.hours != kEveryHourMask     ? 3600
                                                       : kDaySeconds;
  while (local < kLocalEnd && Matches(e, local)) local += step - local % step;
  return std::min(local, kLocalEnd);
}

std::optional<int64_t> FirstMatch(const CronExpression& e, int64_t begin, int64_t end) {
  begin = std::max(begin, kLocalBegin);
  end = std::min(end, kLocalEnd);
  if (begin >= end) return std::nullopt;
  int64_t day = begin / kDaySeconds;
  const CivilDate date = CivilFromDay(day);
  int64_t first_of_month = day - (date.day - 1);
  int first_weekday = static_cast<int>((first_of_month + 4) % 7);
  int year = date.year, month = date.month;
  uint64_t days = From(MatchingDays(e, year, month, first_weekday), date.day);
  if ((days >> date.day) & 1) {
    const int time = TimeFrom(e, static_cast<int>(begin % kDaySeconds));
    if (time >= 0) {
      const int64_t found = day * kDaySeconds + time;
      return found < end ? std::optional<int64_t>(found) : std::nullopt;
    }
    days = From(days, date.day + 1);
  }
  while (days == 0) {
    const int length = DaysInMonth(year, month);
    first_of_month += length;
    if (first_of_month * kDaySeconds >= end) return std::nullopt;
    first_weekday = (first_weekday + length) % 7;
    if (++month > 12) month = 1, ++year;
    days = MatchingDays(e, year, month, first_weekday);
  }
  const int64_t found = (first_of_month + Lowest(days) - 1) * kDaySeconds + FirstTime(e);
  return found < end ? std::optional<int64_t>(found) : std::nullopt;
}

std::optional<int64_t> LastMatch(const CronExpression& e, int64_t begin, int64_t end) {
  begin = std::max(begin, kLocalBegin);
  end = std::min(end, kLocalEnd);
  if (begin >= end) return std::nullopt;
  const int64_t last = end - 1;
  const int64_t day = last / kDaySeconds;
  const CivilDate date = CivilFromDay(day);
  int64_t first_of_month = day - (date.day - 1);
  int first_weekday = static_cast<int>((first_of_month + 4) % 7);
  int year = date.year, month = date.month;
  uint64_t days = UpTo(MatchingDays(e, year, month, first_weekday), date.day);
  if ((days >> date.day) & 1) {
    const int time = TimeUpTo(e, static_cast<int>(last % kDaySeconds));
    if (time >= 0) {
      const int64_t found = day * kDaySeconds + time;
      return found >= begin ? std::optional<int64_t>(found) : std::nullopt;
    }
    days = UpTo(days, date.day - 1);
  }
  while (days == 0) {
    if (first_of_month * kDaySeconds <= begin) return std::nullopt;
    if (--month < 1) month = 12, --year;
    const int length = DaysInMonth(year, month);
    first_of_month -= length;
    first_weekday = (first_weekday + 35 - length) % 7;
    days = MatchingDays(e, year, month, first_weekday);
  }
  const int64_t found = (first_of_month + Highest(days) - 1) * kDaySeconds + LastTime(e);
  return found >= begin ? std::optional<int64_t>(found) : std::nullopt;
}

}  // namespace escapement::cron
