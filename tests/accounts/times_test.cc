#include "tests/accounts/times.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace escapement::accounts {
namespace times_test {

absl::Time At(const char* text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime("%Y-%m-%d %H:%M:%S", text, &time, &error)) << error;
  return time;
}

// "08 07:00:05" for each occurrence of the 24 h from `begin` on.
std::string Day(const Times& times, const char* begin) {
  const std::vector<absl::Time> found = times.Between(At(begin), At(begin) + absl::Hours(24));
  return absl::StrJoin(found, ", ", [](std::string* out, absl::Time time) {
    absl::StrAppend(out, absl::FormatTime("%d %H:%M:%S", time, absl::UTCTimeZone()));
  });
}

TEST(TimesTest, DailyTimesInAGapFireAfterIt) {
  Times times{.kind = Times::Kind::kDaily, .zone = 2, .hour = 2, .minute = 30, .second = 5};
  EXPECT_EQ(Day(times, "2026-03-07 00:00:00"), "07 07:30:05");
  EXPECT_EQ(Day(times, "2026-03-08 00:00:00"), "08 07:00:00");
  EXPECT_EQ(Day(times, "2026-03-09 00:00:00"), "09 06:30:05");
}

TEST(TimesTest, DailyTimesThatComeTwiceFireAtTheFirst) {
  Times times{.kind = Times::Kind::kDaily, .zone = 3, .hour = 2, .minute = 30};
  EXPECT_EQ(Day(times, "2026-10-24 20:00:00"), "25 00:30:00");
  EXPECT_EQ(Day(times, "2026-10-25 20:00:00"), "26 01:30:00");
}

TEST(TimesTest, TimesOfEachHourFollowTheClock) {
  Times times{.kind = Times::Kind::kHourly, .zone = 1, .minute = 15, .second = 7};
  const std::vector<absl::Time> found =
      times.Between(At("2026-03-08 00:45:07"), At("2026-03-08 02:45:07"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], At("2026-03-08 00:45:07"));
  EXPECT_EQ(found[1], At("2026-03-08 01:45:07"));
}

TEST(TimesTest, IntervalsAndListsAreCutAtTheRange) {
  Times times{.kind = Times::Kind::kInterval, .every = 30'000, .anchor = At("2026-03-09 01:00:00")};
  EXPECT_EQ(Day(times, "2026-03-08 00:00:00"), "08 00:00:00, 08 08:20:00, 08 16:40:00");
  Times list{.kind = Times::Kind::kList};
  list.list = {At("2026-03-07 23:59:59"), At("2026-03-08 00:00:00"), At("2026-03-09 00:00:00")};
  EXPECT_EQ(Day(list, "2026-03-08 00:00:00"), "08 00:00:00");
}

}  // namespace times_test
}  // namespace escapement::accounts
