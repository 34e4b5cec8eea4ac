#include "common/cron/civil_match.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/cron/field_parser.h"
#include "common/cron/zone.h"

namespace escapement::cron {

namespace {

constexpr size_t kSetsKept = 64;  // more sets are not kept: their answers are computed again

using Exclusions = absl::InlinedVector<const CronExpression*, 8>;

// One search, in one direction of time.
class AllowedSearch {
 public:
  AllowedSearch(const CronExpression& e, absl::Span<const CronExpression> exclusions, bool forward)
      : e_(e), exclusions_(exclusions), forward_(forward) {
    for (const CronExpression& x : exclusions) {
      covers_.push_back((e.hours & ~x.hours) == 0 && (e.minutes & ~x.minutes) == 0 &&
                        (e.seconds & ~x.seconds) == 0);
    }
  }

  // The nearest allowed local second at or after (or: at or before) `from`, on no day after
  // (before) the day of `to`. Both must be in the years of zone.h.
  std::optional<int64_t> Nearest(int64_t from, int64_t to) {
    const int64_t first_day = from / kDaySeconds, last_day = to / kDaySeconds;
    CivilMonth month = CivilMonth::Of(first_day);
    uint32_t days = static_cast<uint32_t>(
        Onward(month.Matching(e_), static_cast<int>(first_day - month.first_day()) + 1));
    bool on_first_day = true;
    while (true) {
      LookAt(month, days);
      while (days != 0) {
        const int d = Next(days);
        const int64_t day = month.first_day() + d - 1;
        const Exclusions active = ActiveOn(d);
        const bool partly = on_first_day && day == first_day;
        const int time = partly ? TimeFrom(active, static_cast<int>(from % kDaySeconds))
                                : TimeOfWholeDay(active);
        if (time >= 0) return day * kDaySeconds + time;
        days &= partly ? ~(uint32_t{1} << d) : ~SameDays(d);
      }
      on_first_day = false;
      days = forward_ ? month.ToNextMatching(e_, last_day + 1)
                      : month.ToPreviousMatching(e_, last_day);
      if (days == 0) return std::nullopt;
    }
  }

 private:
  int Next(uint64_t mask) const { return forward_ ? LowestBit(mask) : HighestBit(mask); }
  uint64_t Onward(uint64_t mask, int bit) const {
    return forward_ ? BitsFrom(mask, bit) : BitsUpTo(mask, bit);
  }

  // Removes from `days` the days on which one exclusion leaves no time.
  void LookAt(const CivilMonth& month, uint32_t& days) {
    if (days == 0) return;
    excluded_days_.clear();
    for (size_t i = 0; i < exclusions_.size(); ++i) {
      excluded_days_.push_back(month.Matching(exclusions_[i]));
      if (covers_[i]) days &= ~excluded_days_[i];
    }
  }

  Exclusions ActiveOn(int d) const {
    Exclusions active;
    for (size_t i = 0; i < exclusions_.size(); ++i) {
      if (HasBit(excluded_days_[i], d)) active.push_back(&exclusions_[i]);
    }
    return active;
  }

  // The days of the month that the same exclusions match as day d.
  uint32_t SameDays(int d) const {
    uint32_t same = ~uint32_t{0};
    for (const uint32_t days : excluded_days_) same &= HasBit(days, d) ? days : ~days;
    return same;
  }

  int TimeOfWholeDay(const Exclusions& active) {
    for (const auto& [set, time] : whole_days_) {
      if (set == active) return time;
    }
    const int time = TimeFrom(active, forward_ ? 0 : kDaySeconds - 1);
    if (whole_days_.size() < kSetsKept) whole_days_.emplace_back(active, time);
    return time;
  }

  // The nearest time of day that none of `active` matches; -1 if there is none.
  int TimeFrom(const Exclusions& active, int from) const {
    const int hour0 = from / 3600;
    for (uint64_t hours = Onward(e_.hours, hour0); hours != 0;) {
      const int h = Next(hours);
      Exclusions in_hour;
      uint64_t same = ~uint64_t{0};
      for (const CronExpression* x : active) {
        const bool has = HasBit(x->hours, h);
        same &= has ? uint64_t{x->hours} : ~uint64_t{x->hours};
        if (has) in_hour.push_back(x);
      }
      const int in = MinuteSecondFrom(in_hour, h == hour0 ? from % 3600 : forward_ ? 0 : 3599);
      if (in >= 0) return h * 3600 + in;
      hours &= h == hour0 ? ~(uint64_t{1} << h) : ~same;
    }
    return -1;
  }

  // The same within an hour.
  int MinuteSecondFrom(const Exclusions& active, int from) const {
    const int minute0 = from / 60;
    for (uint64_t minutes = Onward(e_.minutes, minute0); minutes != 0;) {
      const int m = Next(minutes);
      uint64_t same = ~uint64_t{0};
      uint64_t seconds = m == minute0 ? Onward(e_.seconds, from % 60) : e_.seconds;
      for (const CronExpression* x : active) {
        const bool has = HasBit(x->minutes, m);
        same &= has ? x->minutes : ~x->minutes;
        if (has) seconds &= ~x->seconds;
      }
      if (seconds != 0) return m * 60 + Next(seconds);
      minutes &= m == minute0 ? ~(uint64_t{1} << m) : ~same;
    }
    return -1;
  }

  const CronExpression& e_;
  const absl::Span<const CronExpression> exclusions_;
  const bool forward_;
  absl::InlinedVector<bool, 8> covers_;  // each exclusion: matches all times of day of e_
  absl::InlinedVector<uint32_t, 8> excluded_days_;  // for the present month, in the order of
                                                    // exclusions_
  std::vector<std::pair<Exclusions, int>> whole_days_;
};

bool Excluded(absl::Span<const CronExpression> exclusions, int64_t local) {
  return std::any_of(exclusions.begin(), exclusions.end(),
                     [local](const CronExpression& x) { return Matches(x, local); });
}

}  // namespace

std::optional<int64_t> FirstAllowed(const CronExpression& e,
                                    absl::Span<const CronExpression> exclusions, int64_t begin,
                                    int64_t end) {
  const std::optional<int64_t> match = FirstMatch(e, begin, end);
  if (!match || exclusions.empty() || !Excluded(exclusions, *match)) return match;
  const auto found =
      AllowedSearch(e, exclusions, true).Nearest(*match, std::min(end, kLocalEnd) - 1);
  return found && *found < end ? found : std::nullopt;
}

std::optional<int64_t> LastAllowed(const CronExpression& e,
                                   absl::Span<const CronExpression> exclusions, int64_t begin,
                                   int64_t end) {
  const std::optional<int64_t> match = LastMatch(e, begin, end);
  if (!match || exclusions.empty() || !Excluded(exclusions, *match)) return match;
  const auto found =
      AllowedSearch(e, exclusions, false).Nearest(*match, std::max(begin, kLocalBegin));
  return found && *found >= begin ? found : std::nullopt;
}

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

// Bit 7 × (k - 1) + d of `nth` stands for the k-th weekday d of the month; 0 is Sunday. Returns a
// mask of those days.
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
