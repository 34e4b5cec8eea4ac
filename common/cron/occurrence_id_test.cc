#include "common/cron/timetable.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace occurrence_id_test {

TEST(OccurrenceIdTest, CalendarOccurrencesKeepCivilTimeFoldAndZone) {
  const std::string text =
      FormatCalendarOccurrence(absl::CivilSecond(2026, 11, 21, 3, 0, 0), 0, "Asia/Kolkata");
  EXPECT_EQ(text, "20261121T030000-0-Asia~Kolkata");
  const auto id = ParseOccurrence(text);
  ASSERT_TRUE(id.ok());
  EXPECT_TRUE(id->calendar);
  EXPECT_EQ(id->civil, absl::CivilSecond(2026, 11, 21, 3, 0, 0));
  EXPECT_EQ(id->zone, "Asia/Kolkata");
  const auto deep = ParseOccurrence(
      FormatCalendarOccurrence(absl::CivilSecond(2026, 1, 1), 1, "America/Indiana/Knox"));
  ASSERT_TRUE(deep.ok());
  EXPECT_EQ(deep->fold, 1);
  EXPECT_EQ(deep->zone, "America/Indiana/Knox");
  EXPECT_TRUE(
      ParseOccurrence(FormatCalendarOccurrence(absl::CivilSecond(2026, 1, 1), 0, "Etc/GMT+5"))
          .ok());
}

TEST(OccurrenceIdTest, InstantsKeepMicroseconds) {
  const absl::Time t =
      absl::FromCivil(absl::CivilSecond(2026, 11, 21, 3, 0, 0), absl::UTCTimeZone()) +
      absl::Microseconds(42);
  EXPECT_EQ(FormatInstantOccurrence(t + absl::Nanoseconds(999)), "20261121T030000.000042Z");
  const auto id = ParseOccurrence("20261121T030000.000042Z");
  ASSERT_TRUE(id.ok());
  EXPECT_FALSE(id->calendar);
  EXPECT_EQ(id->instant, t);
  const absl::Time early = absl::FromUnixMicros(-1);
  EXPECT_EQ(FormatInstantOccurrence(early), "19691231T235959.999999Z");
  EXPECT_EQ(ParseOccurrence("19691231T235959.999999Z")->instant, early);
}

TEST(OccurrenceIdTest, TheySortByTimeThenFold) {
  const auto calendar = [](int hour, int fold) {
    return FormatCalendarOccurrence(absl::CivilSecond(2026, 10, 25, hour, 30, 0), fold,
                                    "Europe/Berlin");
  };
  EXPECT_LT(calendar(1, 0), calendar(2, 0));
  EXPECT_LT(calendar(2, 0), calendar(2, 1));
  EXPECT_LT(calendar(2, 1), calendar(3, 0));
  EXPECT_LT(FormatInstantOccurrence(absl::FromUnixMicros(999'999)),
            FormatInstantOccurrence(absl::FromUnixMicros(1'000'000)));
}

TEST(OccurrenceIdTest, RefusesTextsItDoesNotWrite) {
  for (const char* text :
       {"", "x", "20261121T030000", "20261121T030000Z", "20261121T030000.00000Z",
        "20261121T030000.0000000Z", "20261121T030000.00000xZ", "20260230T030000-0-UTC",
        "20261121T250000-0-UTC", "20261121t030000-0-UTC", "20261121T030000-0-",
        "20261121T030000-x-UTC", "20261121T030000-10-UTC", "20261121T030000-0-Asia/Kolkata",
        "20261121T030000 0 UTC"}) {
    EXPECT_FALSE(ParseOccurrence(text).ok()) << text;
  }
}

}  // namespace occurrence_id_test
}  // namespace escapement::cron
