#include "common/cron/launch_expression.h"

#include <algorithm>
#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/cron/civil_match.h"

namespace escapement::cron {
namespace {

constexpr int64_t kDaySeconds = 86400;
constexpr std::array<absl::string_view, 7> kWeekdays = {"SUN", "MON", "TUE", "WED",
                                                        "THU", "FRI", "SAT"};
constexpr std::array<int, 13> kMonthDaysMax = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

bool FiresBetweenMinutes(const CronExpression& e) { return e.seconds != 1; }
bool EveryMonth(const CronExpression& e) { return e.months == kEveryMonthMask; }

LaunchExpression DayExpression(const CronExpression& e, int month, int day) {
  LaunchExpression x{.launch_class = LaunchClass::kDayOfMonth, .seconds = FiresBetweenMinutes(e)};
  x.date_value = static_cast<uint16_t>(day);
  if (!EveryMonth(e)) {
    x.launch_class = LaunchClass::kMonthDay;
    x.date_value = static_cast<uint16_t>(month * 32 + day);
  }
  return x;
}

LaunchExpression WeekdayExpression(const CronExpression& e, int month, int weekday) {
  LaunchExpression x{.launch_class = LaunchClass::kWeekday, .seconds = FiresBetweenMinutes(e)};
  x.date_value = static_cast<uint16_t>(weekday);
  if (!EveryMonth(e)) {
    x.launch_class = LaunchClass::kMonthWeekday;
    x.date_value = static_cast<uint16_t>(month * 8 + weekday);
  }
  return x;
}

LaunchExpression EveryDayExpression(const CronExpression& e, int month) {
  LaunchExpression x{.launch_class = LaunchClass::kHour, .seconds = FiresBetweenMinutes(e)};
  if (!EveryMonth(e)) {
    x.launch_class = LaunchClass::kMonthDay;
    x.date_value = static_cast<uint16_t>(month * 32);
  }
  return x;
}

std::set<LaunchExpression> Expressions(const CronExpression& e) {
  std::set<LaunchExpression> all;
  for (int month = 1; month <= 12; ++month) {
    if (((e.months >> month) & 1) == 0) continue;
    if (EveryDay(e)) {
      all.insert(EveryDayExpression(e, month));
      continue;
    }
    if (e.day_of_month_restricted) {
      for (int day = 1; day <= kMonthDaysMax[month]; ++day) {
        if ((e.days_of_month >> day) & 1) all.insert(DayExpression(e, month, day));
      }
    }
    if (e.day_of_week_restricted) {
      for (int weekday = 0; weekday < 7; ++weekday) {
        if ((e.days_of_week >> weekday) & 1) all.insert(WeekdayExpression(e, month, weekday));
      }
    }
  }
  return all;
}

struct TimeSplit {
  bool hour = false, minute = false;  // false: "any"
};

// The split that makes the fewest windows read a child in vain; of equal ones the one with the
// fewest children.
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
    // Of 24 × 60 times of day at which the child is read, this many are its own.
    const int hits = (split.hour ? 24 : hours) * (split.minute ? 60 : minutes);
    if (hits > best_hits || (hits == best_hits && children < best_children)) {
      best = split, best_hits = hits, best_children = children;
    }
  }
  return best;
}

// The size of Expressions(e).
size_t CountDates(const CronExpression& e) {
  const size_t months = EveryMonth(e) ? 1 : std::popcount(e.months);
  if (EveryDay(e)) return months;
  size_t dates = e.day_of_week_restricted ? months * std::popcount(e.days_of_week) : 0;
  if (!e.day_of_month_restricted) return dates;
  if (EveryMonth(e)) return dates + std::popcount(e.days_of_month);
  for (int month = 1; month <= 12; ++month) {
    if ((e.months >> month) & 1)
      dates += std::popcount(e.days_of_month & ((uint64_t{2} << kMonthDaysMax[month]) - 1));
  }
  return dates;
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

// The minutes of the day [first, last], under their hours and under any hour.
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

// The part of a window within one civil day.
void AddDay(int64_t day, int64_t begin, int64_t end, const std::set<LaunchExpression>& in_use,
            std::vector<PlaceRange>& ranges) {
  const CivilDate date = DateOfDay(day);
  const auto value = [](int v) { return static_cast<uint16_t>(v); };
  for (const bool seconds : {false, true}) {
    // Others than those with seconds are due when a minute begins.
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
      return absl::StrCat("MW:", value / 8, "-", kWeekdays[value % 8 % 7]);
    case LaunchClass::kDayOfMonth:
      return absl::StrCat("M:", value);
    case LaunchClass::kWeekday:
      return absl::StrCat("W:", kWeekdays[value % 7]);
    case LaunchClass::kHour:
      return place.hour == kAnyPlace ? "H:*" : absl::StrCat("H:", place.hour);
  }
  return "";
}

std::vector<Place> ChildPlaces(const CronExpression& e) {
  const std::set<LaunchExpression> expressions = Expressions(e);
  const TimeSplit split = ChooseSplit(e, CountDates(e));
  std::vector<Place> places;
  for (const LaunchExpression& x : expressions) {
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
  const CivilDate date = DateOfDay(ToLocalSeconds(civil) / kDaySeconds);
  const TimeSplit split = ChooseSplit(e, CountDates(e));
  Place place;
  if (EveryDay(e)) {
    place.expression = EveryDayExpression(e, date.month);
  } else if (e.day_of_month_restricted && ((e.days_of_month >> date.day) & 1)) {
    place.expression = DayExpression(e, date.month, date.day);
  } else {
    place.expression = WeekdayExpression(e, date.month, date.weekday);
  }
  if (split.hour) place.hour = static_cast<uint8_t>(civil.hour());
  if (split.minute) place.minute = static_cast<uint8_t>(civil.minute());
  return place;
}

std::vector<LocalWindow> LocalImages(const Zone& zone, absl::Time begin, absl::Time end) {
  std::vector<LocalWindow> windows;
  if (begin >= end) return windows;
  // Occurrences are whole seconds: those in [begin, end) are those in [first, last].
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
    // A gap ends where the span begins. All of it may fire at its end, or each time at the old
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
