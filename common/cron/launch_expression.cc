#include "common/cron/launch_expression.h"

#include <algorithm>
#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/cron/civil_match.h"
#include "common/cron/field_parser.h"

namespace escapement::cron {
namespace {

constexpr std::array<absl::string_view, 7> kDayNames = {"SUN", "MON", "TUE", "WED",
                                                        "THU", "FRI", "SAT"};
constexpr std::array<int, 13> kMonthDaysMax = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
bool FiresBetweenMinutes(const CronExpression& e) { return e.seconds != 1; }
bool EveryMonth(const CronExpression& e) { return e.months == kEveryMonthMask; }

// The days on which the day-of-month field can fall in a month of any year.
uint32_t PossibleDays(const CronExpression& e, int month) {
  const int days_max = kMonthDaysMax[month];
  if ((e.days_before_last | e.weekdays_near_day | e.weekdays_near_last) == 0)
    return e.days_of_month & AllDays({.days = days_max});
  uint32_t days = 0;
  for (int length = month == 2 ? 28 : days_max; length <= days_max; ++length) {
    for (int weekday = 0; weekday < 7; ++weekday)
      days |= DaysByDayOfMonth(e, {.days = length, .first_weekday = weekday});
  }
  return days;
}

// The dates of an expression's places.
class DatePlaces {
 public:
  explicit DatePlaces(const CronExpression& e)
      : every_day_(EveryDay(e)),
        every_month_(EveryMonth(e)),
        by_day_(!every_day_ && e.day_of_month_restricted),
        by_weekday_(!every_day_ && e.day_of_week_restricted),
        seconds_(FiresBetweenMinutes(e)),
        e_(e) {
    if (by_day_) FindDays();
    if (by_weekday_) {
      weekdays_ = e.days_of_week;
      for (uint64_t nth = e.weekdays_of_month; nth != 0; nth >>= 7) weekdays_ |= nth & 0x7f;
    }
    if (by_day_ && by_weekday_ && e.both_days_match) KeepTheRarerKind();
  }

  size_t Count() const {
    const int months = every_month_ ? 1 : std::popcount(e_.months);
    size_t count = every_day_ ? months : std::popcount(days_) + months * std::popcount(weekdays_);
    for (const uint32_t days : month_days_) count += std::popcount(days);
    return count;
  }

  std::set<LaunchExpression> All() const {
    std::set<LaunchExpression> all;
    for (int month = 1; month <= 12; ++month) {
      if (!HasBit(e_.months, month)) continue;
      if (every_day_) all.insert(OfMonth(month));
      for (uint32_t days = days_ | month_days_[month]; days != 0; days &= days - 1)
        all.insert(OfDay(month, LowestBit(days)));
      for (uint32_t weekdays = weekdays_; weekdays != 0; weekdays &= weekdays - 1)
        all.insert(OfWeekday(month, LowestBit(weekdays)));
    }
    return all;
  }

  // The LaunchExpression of the places for a day that the expression matches.
  LaunchExpression Of(int64_t day) const {
    const CivilMonth month = CivilMonth::Of(day);
    if (every_day_) return OfMonth(month.month());
    const int d = static_cast<int>(day - month.first_day()) + 1;
    if (by_day_ && (!by_weekday_ || HasBit(DaysByDayOfMonth(e_, month.shape()), d)))
      return OfDay(month.month(), d);
    return OfWeekday(month.month(), (month.shape().first_weekday + d - 1) % 7);
  }

 private:
  // If the expression has every month, places of days need not name the month. Except: days that
  // count from the end of the month do, so that a 28th does not read the ends of months with 31
  // days.
  void FindDays() {
    if (every_month_) {
      CronExpression from_start = e_;
      from_start.days_before_last = from_start.weekdays_near_last = 0;
      for (const int month : {1, 2, 4}) days_ |= PossibleDays(from_start, month);
      if ((e_.days_before_last | e_.weekdays_near_last) == 0) return;
    }
    for (int month = 1; month <= 12; ++month) {
      if (HasBit(e_.months, month)) month_days_[month] = PossibleDays(e_, month) & ~days_;
    }
  }

  // If both fields must match, one of them is enough to find the days.
  void KeepTheRarerKind() {
    int days = 12 * std::popcount(days_);
    for (const uint32_t of_month : month_days_) days += std::popcount(of_month);
    // A month has 4.35 of each weekday.
    const int months = std::popcount(e_.months);
    by_day_ = 100 * days <= 435 * months * std::popcount(weekdays_);
    by_weekday_ = !by_day_;
    if (by_day_) weekdays_ = 0;
    if (by_weekday_) days_ = 0, month_days_ = {};
  }

  static uint16_t Value(int value) { return static_cast<uint16_t>(value); }

  LaunchExpression OfMonth(int month) const {
    if (every_month_) return {LaunchClass::kHour, seconds_, 0};
    return {LaunchClass::kMonthDay, seconds_, Value(month * 32)};
  }
  LaunchExpression OfDay(int month, int day) const {
    if (HasBit(days_, day)) return {LaunchClass::kDayOfMonth, seconds_, Value(day)};
    return {LaunchClass::kMonthDay, seconds_, Value(month * 32 + day)};
  }
  LaunchExpression OfWeekday(int month, int weekday) const {
    if (every_month_) return {LaunchClass::kWeekday, seconds_, Value(weekday)};
    return {LaunchClass::kMonthWeekday, seconds_, Value(month * 8 + weekday)};
  }

  bool every_day_, every_month_, by_day_, by_weekday_, seconds_;
  uint32_t days_ = 0;                         // in any month
  std::array<uint32_t, 13> month_days_ = {};  // only in that month
  uint32_t weekdays_ = 0;
  const CronExpression& e_;
};

struct TimeSplit {
  bool hour = false, minute = false;  // false: "any"
};

// Chooses the split with which the fewest windows read a child in vain; among equal ones, the one
// with the fewest children.
TimeSplit ChooseSplit(const CronExpression& e, size_t dates) {
  const int hours = std::popcount(e.hours), minutes = std::popcount(e.minutes);
  const int children_max =
      std::min<int>(kTimesOfDayMax,
                    std::max<int>(1, kChildrenMax / static_cast<int>(std::max<size_t>(dates, 1))));
  TimeSplit best;
  int best_hits = 0, best_children = 0;
  for (const TimeSplit split :
       {TimeSplit{false, false}, {false, true}, {true, false}, {true, true}}) {
    const int children = (split.hour ? hours : 1) * (split.minute ? minutes : 1);
    if (children > children_max) continue;
    // In 24 × 60 reads, the child is due this often.
    const int hits = (split.hour ? 24 : hours) * (split.minute ? 60 : minutes);
    if (hits > best_hits || (hits == best_hits && children < best_children)) {
      best = split, best_hits = hits, best_children = children;
    }
  }
  return best;
}

void Merge(std::vector<LocalWindow>& windows) {
  std::sort(windows.begin(), windows.end(),
            [](const LocalWindow& a, const LocalWindow& b) { return a.begin < b.begin; });
  std::vector<LocalWindow> merged;
  for (const LocalWindow& window : windows) {
    if (window.begin >= window.end) continue;
    if (!merged.empty() && window.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, window.end);
    } else {
      merged.push_back(window);
    }
  }
  windows = std::move(merged);
}

void Merge(std::vector<PlaceRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const PlaceRange& a, const PlaceRange& b) { return a.first < b.first; });
  std::vector<PlaceRange> merged;
  for (const PlaceRange& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges = std::move(merged);
}

void AddRange(const LaunchExpression& x, int hour1, int minute1, int hour2, int minute2,
              std::vector<PlaceRange>& ranges) {
  ranges.push_back({.first = {x, static_cast<uint8_t>(hour1), static_cast<uint8_t>(minute1)},
                    .last = {x, static_cast<uint8_t>(hour2), static_cast<uint8_t>(minute2)}});
}

// Adds the places of the minutes [first, last] of the day, under their hours and under any hour.
void AddMinutes(const LaunchExpression& x, int first, int last, std::vector<PlaceRange>& ranges) {
  for (int hour = first / 60; hour <= last / 60; ++hour) {
    const int minute1 = hour == first / 60 ? first % 60 : 0;
    const int minute2 = hour == last / 60 ? last % 60 : 59;
    AddRange(x, hour, minute1, hour, minute2 == 59 ? kAnyPlace : minute2, ranges);
    AddRange(x, hour, kAnyPlace, hour, kAnyPlace, ranges);
    AddRange(x, kAnyPlace, minute1, kAnyPlace, minute2 == 59 ? kAnyPlace : minute2, ranges);
  }
  AddRange(x, kAnyPlace, kAnyPlace, kAnyPlace, kAnyPlace, ranges);
}

// Adds the part of a window within one civil day.
void AddDay(int64_t day, int64_t begin, int64_t end, const std::set<LaunchExpression>& in_use,
            std::vector<PlaceRange>& ranges) {
  const CivilDate date = DateOfDay(day);
  const auto value = [](int v) { return static_cast<uint16_t>(v); };
  for (const bool seconds : {false, true}) {
    // Expressions without seconds are due only when a minute begins.
    const int first = static_cast<int>(seconds ? begin / 60 : (begin + 59) / 60);
    const int last = static_cast<int>((end - 1) / 60);
    if (first > last) continue;
    for (const LaunchExpression& x :
         {LaunchExpression{LaunchClass::kMonthDay, seconds, value(date.month * 32)},
          LaunchExpression{LaunchClass::kMonthDay, seconds, value(date.month * 32 + date.day)},
          LaunchExpression{LaunchClass::kMonthWeekday, seconds,
                           value(date.month * 8 + date.weekday)},
          LaunchExpression{LaunchClass::kDayOfMonth, seconds, value(date.day)},
          LaunchExpression{LaunchClass::kWeekday, seconds, value(date.weekday)},
          LaunchExpression{LaunchClass::kHour, seconds, 0}}) {
      if (in_use.contains(x)) AddMinutes(x, first, last, ranges);
    }
  }
}

}  // namespace

absl::string_view LaunchClassName(LaunchClass launch_class) {
  switch (launch_class) {
    case LaunchClass::kMonthDay:
      return "MONTH_DAY";
    case LaunchClass::kMonthWeekday:
      return "MONTH_WEEKDAY";
    case LaunchClass::kDayOfMonth:
      return "DAY_OF_MONTH";
    case LaunchClass::kWeekday:
      return "WEEKDAY";
    case LaunchClass::kHour:
      return "HOUR";
  }
  return "";
}

std::optional<LaunchExpression> LaunchExpression::Of(uint8_t class_byte, uint16_t date_value) {
  const uint8_t number = class_byte & 0x7f;
  if (number < 1 || number > 5) return std::nullopt;
  return LaunchExpression{static_cast<LaunchClass>(number), (class_byte & 0x80) != 0, date_value};
}

std::string DescribeLaunchExpression(const Place& place) {
  const int value = place.expression.date_value;
  switch (place.expression.launch_class) {
    case LaunchClass::kMonthDay:
      return value % 32 == 0 ? absl::StrCat("MM:", value / 32, "-*")
                             : absl::StrCat("MM:", value / 32, "-", value % 32);
    case LaunchClass::kMonthWeekday:
      return absl::StrCat("MW:", value / 8, "-", kDayNames[value % 8 % 7]);
    case LaunchClass::kDayOfMonth:
      return absl::StrCat("M:", value);
    case LaunchClass::kWeekday:
      return absl::StrCat("W:", kDayNames[value % 7]);
    case LaunchClass::kHour:
      return place.hour == kAnyPlace ? "H:*" : absl::StrCat("H:", place.hour);
  }
  return "";
}

std::vector<Place> ChildPlaces(const CronExpression& e) {
  const DatePlaces dates(e);
  const TimeSplit split = ChooseSplit(e, dates.Count());
  std::vector<Place> places;
  for (const LaunchExpression& x : dates.All()) {
    for (int hour = 0; hour < (split.hour ? 24 : 1); ++hour) {
      if (split.hour && ((e.hours >> hour) & 1) == 0) continue;
      for (int minute = 0; minute < (split.minute ? 60 : 1); ++minute) {
        if (split.minute && ((e.minutes >> minute) & 1) == 0) continue;
        places.push_back({.expression = x,
                          .hour = split.hour ? static_cast<uint8_t>(hour) : kAnyPlace,
                          .minute = split.minute ? static_cast<uint8_t>(minute) : kAnyPlace});
      }
    }
  }
  return places;
}

Place CanonicalPlace(const CronExpression& e, absl::CivilSecond civil) {
  const DatePlaces dates(e);
  const TimeSplit split = ChooseSplit(e, dates.Count());
  Place place;
  place.expression = dates.Of(ToLocalSeconds(civil) / kDaySeconds);
  if (split.hour) place.hour = static_cast<uint8_t>(civil.hour());
  if (split.minute) place.minute = static_cast<uint8_t>(civil.minute());
  return place;
}

std::vector<LocalWindow> LocalImages(const Zone& zone, absl::Time begin, absl::Time end) {
  std::vector<LocalWindow> windows;
  if (begin >= end) return windows;
  // Occurrences are whole seconds: [begin, end) holds those of [first, last].
  const int64_t floor = absl::ToUnixSeconds(begin);
  const int64_t first = absl::FromUnixSeconds(floor) == begin ? floor : floor + 1;
  const int64_t last = absl::ToUnixSeconds(end - absl::Nanoseconds(1));
  if (first > last) return windows;
  const auto spans = zone.spans();
  const size_t last_span = zone.SpanAt(last);
  for (size_t i = zone.SpanAt(first - 2 * kDaySeconds); i <= last_span; ++i) {
    const int64_t span_begin = std::max(first, spans[i].begin);
    const int64_t span_end = std::min(last + 1, zone.SpanEnd(i));
    if (span_begin < span_end)
      windows.push_back({span_begin + spans[i].offset, span_end + spans[i].offset});
    if (i == 0 || spans[i].offset <= spans[i - 1].offset) continue;
    // A gap ends where the span begins. All its times may fire at its end, or each at the old
    // offset.
    const int64_t before = spans[i - 1].offset, length = spans[i].offset - before,
                  change = spans[i].begin;
    if (change >= first && change <= last)
      windows.push_back({change + before, change + before + length});
    windows.push_back(
        {std::max(first, change) + before, std::min(last + 1, change + length) + before});
  }
  Merge(windows);
  return windows;
}

std::vector<PlaceRange> PlacesToRead(const Zone& zone, absl::Time begin, absl::Time end,
                                     const std::set<LaunchExpression>& in_use) {
  std::vector<PlaceRange> ranges;
  if (in_use.empty()) return ranges;
  for (LocalWindow window : LocalImages(zone, begin, end)) {
    window.begin = std::max(window.begin, kLocalBegin);
    window.end = std::min(window.end, kLocalEnd);
    for (int64_t at = window.begin; at < window.end;) {
      const int64_t day = at / kDaySeconds;
      const int64_t until = std::min(window.end, (day + 1) * kDaySeconds);
      AddDay(day, at - day * kDaySeconds, until - day * kDaySeconds, in_use, ranges);
      at = until;
    }
  }
  Merge(ranges);
  return ranges;
}

}  // namespace escapement::cron
