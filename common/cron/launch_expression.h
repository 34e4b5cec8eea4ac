// The index from dates and times of day to cron schedules: it maps a schedule to its children, and
// a window to the places to read.
//
// A schedule has one child for each distinct trigger. The place of a child in the index is its
// LaunchExpression (class and date value of the most significant restricted field), an hour and a
// minute. Hour and minute may be "any". The index only proposes; the evaluator decides what fires.
// For a window of instants, PlacesToRead names the places of all children that can fire in it. If
// several children propose one occurrence, only the child at CanonicalPlace emits it.
//
// Expressions that can fire at other seconds than 0 have their own classes. So a window without a
// full minute reads only those classes.
//
// Pure.

#ifndef COMMON_CRON_LAUNCH_EXPRESSION_H_
#define COMMON_CRON_LAUNCH_EXPRESSION_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/cron/cron_expression.h"
#include "common/cron/zone.h"

namespace escapement::cron {

inline constexpr uint8_t kAnyPlace = 255;  // an hour or minute of a place: any

// A schedule's dates, hours and minutes are split into children as far as these bounds allow.
inline constexpr int kTimesOfDayMax = 24;
inline constexpr int kChildrenMax = 1024;

enum class LaunchClass : uint8_t {
  kMonthDay = 1,      // MM: month × 32 + day of month; day 0: every day of the month
  kMonthWeekday = 2,  // MW: month × 8 + weekday, 0 is Sunday
  kDayOfMonth = 3,    // M: day of month
  kWeekday = 4,       // W: weekday
  kHour = 5,          // H: 0; the hour is part of the place
};
absl::string_view LaunchClassName(LaunchClass launch_class);  // "MONTH_DAY", …

struct LaunchExpression {
  LaunchClass launch_class = LaunchClass::kHour;
  bool seconds = false;  // true for expressions that can fire at other seconds than 0
  uint16_t date_value = 0;

  // The byte in the children's keys. `Of` returns nullopt if `class_byte` is not a class.
  uint8_t ClassByte() const { return static_cast<uint8_t>(launch_class) | (seconds ? 0x80 : 0); }
  static std::optional<LaunchExpression> Of(uint8_t class_byte, uint16_t date_value);

  friend bool operator==(const LaunchExpression&, const LaunchExpression&) = default;
  friend std::strong_ordering operator<=>(const LaunchExpression& a, const LaunchExpression& b) {
    if (auto order = a.ClassByte() <=> b.ClassByte(); order != 0) return order;
    return a.date_value <=> b.date_value;
  }
};

// Ordered like the children's keys.
struct Place {
  LaunchExpression expression;
  uint8_t hour = kAnyPlace;    // 0-23 or any
  uint8_t minute = kAnyPlace;  // 0-59 or any

  friend bool operator==(const Place&, const Place&) = default;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// "MM:12-25", "MM:12-*", "MW:12-MON", "M:15", "W:MON", "H:3", "H:*".
std::string DescribeLaunchExpression(const Place& place);

// The places of all children, ascending; at most kChildrenMax. Empty only for dates that never
// exist. Items such as `L` and `15W` are stored under all days on which they can fall, `d#k` and
// `dL` under their weekday. If both day fields must match (`+`), the one with fewer days in a year
// represents both. The years of an expression make no places.
std::vector<Place> ChildPlaces(const CronExpression& expression);

// The place of the child that emits the occurrence with this nominal civil time, which the
// expression must match. Always one of ChildPlaces.
Place CanonicalPlace(const CronExpression& expression, absl::CivilSecond civil);

// The local seconds of [begin, end).
struct LocalWindow {
  int64_t begin = 0, end = 0;

  friend bool operator==(const LocalWindow&, const LocalWindow&) = default;
};

// All civil times that can name an occurrence with an instant in [begin, end), under any policy:
// the direct image of the window, and the times that a gap moves into it. Ascending, disjoint.
std::vector<LocalWindow> LocalImages(const Zone& zone, absl::Time begin, absl::Time end);

// The places from `first` to `last` inclusive; both have the same LaunchExpression.
struct PlaceRange {
  Place first, last;

  friend bool operator==(const PlaceRange&, const PlaceRange&) = default;
};

// The places of all children that can fire in [begin, end), among the LaunchExpressions in use in
// the zone. Ascending, disjoint.
std::vector<PlaceRange> PlacesToRead(const Zone& zone, absl::Time begin, absl::Time end,
                                     const std::set<LaunchExpression>& in_use);

}  // namespace escapement::cron

#endif  // COMMON_CRON_LAUNCH_EXPRESSION_H_
