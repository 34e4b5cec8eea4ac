#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/cron/civil_match.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace month_days_test {

uint32_t Bit(int day) { return uint32_t{1} << day; }

// The plain way: a month as a row of days.
struct Row {
  MonthShape shape;

  int Weekday(int day) const { return (shape.first_weekday + day - 1) % 7; }
  bool Has(int day) const { return day >= 1 && day <= shape.days; }
  uint32_t Nearest(int day) const {
    if (!Has(day)) return 0;
    for (const int away : {0, -1, 1, -2, 2}) {
      const int weekday = Weekday(day + away + 7);
      if (Has(day + away) && weekday != 0 && weekday != 6) return Bit(day + away);
    }
    return 0;
  }
  // The k-th from the beginning; 6: the last.
  uint32_t Nth(int weekday, int k) const {
    uint32_t found = 0;
    for (int day = 1, count = 0; day <= shape.days; ++day) {
      if (Weekday(day) != weekday) continue;
      ++count;
      if (count == k || k == 6) found = Bit(day);
    }
    return found;
  }
};

// Tests each item by itself, in all kinds of months.
TEST(MonthDaysTest, EveryItemMatchesInEveryShapeOfMonth) {
  const auto days = [](const std::string& day, const std::string& weekday, MonthShape shape) {
    return DaysOfShape(ParseCron(absl::StrCat("0 0 ", day, " * ", weekday)).value(), shape);
  };
  for (int length = 28; length <= 31; ++length) {
    for (int first = 0; first < 7; ++first) {
      const MonthShape shape{.days = length, .first_weekday = first};
      const Row row{shape};
      const std::string where = absl::StrCat(" in ", length, " days from ", first);
      EXPECT_EQ(days("*", "*", shape), AllDays(shape)) << where;
      EXPECT_EQ(days("L", "*", shape), Bit(length)) << where;
      EXPECT_EQ(days("LW", "*", shape), row.Nearest(length)) << where;
      for (int n = 0; n <= 30; ++n) {
        EXPECT_EQ(days(absl::StrCat("L-", n), "*", shape), n < length ? Bit(length - n) : 0)
            << n << where;
        EXPECT_EQ(days(absl::StrCat("L-", n, "W"), "*", shape), row.Nearest(length - n))
            << n << where;
      }
      for (int day = 1; day <= 31; ++day) {
        EXPECT_EQ(days(absl::StrCat(day), "*", shape), row.Has(day) ? Bit(day) : 0) << where;
        EXPECT_EQ(days(absl::StrCat(day, "W"), "*", shape), row.Nearest(day)) << day << where;
      }
      for (int weekday = 0; weekday < 7; ++weekday) {
        uint32_t all = 0;
        for (int k = 1; k <= 5; ++k) {
          EXPECT_EQ(days("*", absl::StrCat(weekday, "#", k), shape), row.Nth(weekday, k)) << where;
          all |= row.Nth(weekday, k);
        }
        EXPECT_EQ(days("*", absl::StrCat(weekday), shape), all) << where;
        EXPECT_EQ(days("*", absl::StrCat(weekday, "L"), shape), row.Nth(weekday, 6)) << where;
        EXPECT_EQ(days("L", absl::StrCat(weekday), shape), all | Bit(length)) << where;
        EXPECT_EQ(days("L", absl::StrCat("+", weekday), shape), all & Bit(length)) << where;
      }
    }
  }
}

}  // namespace month_days_test
}  // namespace escapement::cron
