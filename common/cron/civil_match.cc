#include "common/cron/civil_match.h"

#include <algorithm>

#include "common/cron/bit_range.h"
#include "common/cron/zone.h"

namespace escapement::cron {
namespace {

static_assert(kYearMin == YearSet::kFirst && kYearMax == YearSet::kLast);

constexpr bool IsLeap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

constexpr int DaysInMonth(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeap(year) ? 29 : kDays[month - 1];
}

// Days from 1970-01-01 to January 1st.
constexpr int64_t NewYear(int year) {
  const int64_t before = year - 1;
  return 365 * (before - 1969) + before / 4 - before / 100 + before / 400 - 477;
}
static_assert(NewYear(1970) == 0 && NewYear(2001) == 11323 && NewYear(2200) * 86400 == kLocalEnd);

int FirstTime(const CronExpression& e) {
  return LowestBit(e.hours) * 3600 + LowestBit(e.minutes) * 60 + LowestBit(e.seconds);
}
int LastTime(const CronExpression& e) {
  return HighestBit(e.hours) * 3600 + HighestBit(e.minutes) * 60 + HighestBit(e.seconds);
}

bool TimeMatches(const CronExpression& e, int time) {
  return ((e.hours >> (time / 3600)) & 1) != 0 && ((e.minutes >> (time / 60 % 60)) & 1) != 0 &&
         ((e.seconds >> (time % 60)) & 1) != 0;
}

std::optional<int64_t> Below(int64_t found, int64_t end) {
  return found < end ? std::optional<int64_t>(found) : std::nullopt;
}
std::optional<int64_t> AtLeast(int64_t found, int64_t begin) {
  return found >= begin ? std::optional<int64_t>(found) : std::nullopt;
}

// The first local day at or after `day` that does not match.
int64_t FirstUnmatchedDay(const CronExpression& e, int64_t day) {
  CivilMonth month = CivilMonth::Of(day);
  uint64_t others = BitsFrom(AllDays(month.shape()) & ~month.Matching(e),
                             static_cast<int>(day - month.first_day()) + 1);
  while (others == 0) {
    month.ToNext();
    if (month.year() > kYearMax) return kLocalEnd / kDaySeconds;
    others = AllDays(month.shape()) & ~month.Matching(e);
  }
  return month.first_day() + LowestBit(others) - 1;
}

}  // namespace

// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (civil_from_days), for days from
// 1970 on.
CivilDate DateOfDay(int64_t day) {
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

CivilMonth::CivilMonth(int year, int month, int64_t first_day)
    : year_(year), month_(month), first_(first_day) {
  shape_ = {.days = DaysInMonth(year, month), .first_weekday = static_cast<int>((first_ + 4) % 7)};
}

CivilMonth CivilMonth::Of(int64_t day) {
  const CivilDate date = DateOfDay(day);
  return CivilMonth(date.year, date.month, day - (date.day - 1));
}

void CivilMonth::ToNext() {
  first_ += shape_.days;
  shape_.first_weekday = (shape_.first_weekday + shape_.days) % 7;
  if (++month_ > 12) month_ = 1, ++year_;
  shape_.days = DaysInMonth(year_, month_);
}

void CivilMonth::ToPrevious() {
  if (--month_ < 1) month_ = 12, --year_;
  shape_.days = DaysInMonth(year_, month_);
  first_ -= shape_.days;
  shape_.first_weekday = (shape_.first_weekday + 35 - shape_.days) % 7;
}

uint32_t CivilMonth::Matching(const CronExpression& e) const {
  return ((e.months >> month_) & 1) != 0 && e.years.Has(year_) ? DaysOfShape(e, shape_) : 0;
}

uint32_t CivilMonth::ToNextMatching(const CronExpression& e, int64_t end_day) {
  while (true) {
    ToNext();
    if (month_ == 1 && !e.years.Has(year_)) {
      const int year = e.years.AtOrAfter(year_);
      if (year == 0) return 0;
      *this = CivilMonth(year, 1, NewYear(year));
    }
    if (first_ >= end_day) return 0;
    if (const uint32_t days = Matching(e)) return days;
  }
}

uint32_t CivilMonth::ToPreviousMatching(const CronExpression& e, int64_t begin_day) {
  while (true) {
    if (first_ <= begin_day) return 0;
    ToPrevious();
    if (month_ == 12 && !e.years.Has(year_)) {
      const int year = e.years.AtOrBefore(year_);
      if (year == 0) return 0;
      *this = CivilMonth(year, 12, NewYear(year + 1) - 31);
      if (first_ + 31 <= begin_day) return 0;
    }
    if (const uint32_t days = Matching(e)) return days;
  }
}

int FirstTimeOfDay(const CronExpression& e, int time) {
  const int h = time / 3600, m = time / 60 % 60, s = time % 60;
  if ((e.hours >> h) & 1) {
    if ((e.minutes >> m) & 1) {
      if (const uint64_t rest = BitsFrom(e.seconds, s)) return h * 3600 + m * 60 + LowestBit(rest);
    }
    if (const uint64_t rest = BitsFrom(e.minutes, m + 1))
      return h * 3600 + LowestBit(rest) * 60 + LowestBit(e.seconds);
  }
  if (const uint64_t rest = BitsFrom(e.hours, h + 1)) {
    return LowestBit(rest) * 3600 + LowestBit(e.minutes) * 60 + LowestBit(e.seconds);
  }
  return -1;
}

int LastTimeOfDay(const CronExpression& e, int time) {
  const int h = time / 3600, m = time / 60 % 60, s = time % 60;
  if ((e.hours >> h) & 1) {
    if ((e.minutes >> m) & 1) {
      if (const uint64_t rest = BitsUpTo(e.seconds, s)) return h * 3600 + m * 60 + HighestBit(rest);
    }
    if (const uint64_t rest = BitsUpTo(e.minutes, m - 1))
      return h * 3600 + HighestBit(rest) * 60 + HighestBit(e.seconds);
  }
  if (const uint64_t rest = BitsUpTo(e.hours, h - 1)) {
    return HighestBit(rest) * 3600 + HighestBit(e.minutes) * 60 + HighestBit(e.seconds);
  }
  return -1;
}

bool EveryDay(const CronExpression& e) {
  const bool every_day = !e.day_of_month_restricted || e.days_of_month == kEveryDayOfMonthMask;
  const bool every_weekday = !e.day_of_week_restricted || e.days_of_week == kEveryWeekdayMask;
  if (every_day && every_weekday) return true;
  return e.day_of_month_restricted && e.day_of_week_restricted && !e.both_days_match &&
         (every_day || every_weekday);
}

bool Matches(const CronExpression& e, int64_t local) {
  if (local < kLocalBegin || local >= kLocalEnd) return false;
  if (!TimeMatches(e, static_cast<int>(local % kDaySeconds))) return false;
  const int64_t day = local / kDaySeconds;
  const CivilMonth month = CivilMonth::Of(day);
  return (month.Matching(e) >> (day - month.first_day() + 1)) & 1;
}

int64_t FirstUnmatched(const CronExpression& e, int64_t local) {
  if (!Matches(e, local)) return std::min(local, kLocalEnd);
  const int64_t day = local / kDaySeconds;
  const int time = static_cast<int>(local % kDaySeconds);
  // The lowest field that is not full ends the stretch; all fields above it match.
  int until = 0;
  if (e.seconds != kEverySecondMask) {
    until = time;
    do ++until;
    while (until < kDaySeconds && TimeMatches(e, until));
  } else if (e.minutes != kEveryMinuteMask) {
    until = time - time % 60;
    do until += 60;
    while (until < kDaySeconds && TimeMatches(e, until));
  } else if (e.hours != kEveryHourMask) {
    until = time - time % 3600;
    do until += 3600;
    while (until < kDaySeconds && TimeMatches(e, until));
  } else {
    return FirstUnmatchedDay(e, day) * kDaySeconds;
  }
  if (until < kDaySeconds) return day * kDaySeconds + until;
  // From midnight on the search takes at most as many steps again.
  return FirstUnmatched(e, (day + 1) * kDaySeconds);
}

std::optional<int64_t> FirstMatch(const CronExpression& e, int64_t begin, int64_t end) {
  begin = std::max(begin, kLocalBegin);
  end = std::min(end, kLocalEnd);
  if (begin >= end) return std::nullopt;
  const int64_t day = begin / kDaySeconds;
  CivilMonth month = CivilMonth::Of(day);
  const int day_of_month = static_cast<int>(day - month.first_day()) + 1;
  uint32_t days = static_cast<uint32_t>(BitsFrom(month.Matching(e), day_of_month));
  if ((days >> day_of_month) & 1) {
    const int time = FirstTimeOfDay(e, static_cast<int>(begin % kDaySeconds));
    if (time >= 0) return Below(day * kDaySeconds + time, end);
    days = static_cast<uint32_t>(BitsFrom(days, day_of_month + 1));
  }
  if (days == 0) days = month.ToNextMatching(e, (end + kDaySeconds - 1) / kDaySeconds);
  if (days == 0) return std::nullopt;
  return Below((month.first_day() + LowestBit(days) - 1) * kDaySeconds + FirstTime(e), end);
}

std::optional<int64_t> LastMatch(const CronExpression& e, int64_t begin, int64_t end) {
  begin = std::max(begin, kLocalBegin);
  end = std::min(end, kLocalEnd);
  if (begin >= end) return std::nullopt;
  const int64_t day = (end - 1) / kDaySeconds;
  CivilMonth month = CivilMonth::Of(day);
  const int day_of_month = static_cast<int>(day - month.first_day()) + 1;
  uint32_t days = static_cast<uint32_t>(BitsUpTo(month.Matching(e), day_of_month));
  if ((days >> day_of_month) & 1) {
    const int time = LastTimeOfDay(e, static_cast<int>((end - 1) % kDaySeconds));
    if (time >= 0) return AtLeast(day * kDaySeconds + time, begin);
    days = static_cast<uint32_t>(BitsUpTo(days, day_of_month - 1));
  }
  if (days == 0) days = month.ToPreviousMatching(e, begin / kDaySeconds);
  if (days == 0) return std::nullopt;
  return AtLeast((month.first_day() + HighestBit(days) - 1) * kDaySeconds + LastTime(e), begin);
}

}  // namespace escapement::cron
