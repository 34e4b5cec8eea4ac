#include "common/cron/cron_expression.h"

#include <initializer_list>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace {

using ::testing::HasSubstr;

uint64_t Bits(std::initializer_list<int> values) {
  uint64_t mask = 0;
  for (int v : values) mask |= uint64_t{1} << v;
  return mask;
}

CronExpression Parsed(const std::string& text) {
  const auto e = ParseCron(text);
  EXPECT_TRUE(e.ok()) << text << ": " << e.status();
  return e.value_or(CronExpression{});
}

TEST(CronExpressionTest, ReadsFiveAndSixFields) {
  const CronExpression five = Parsed(" 0\t3,6,9  * * * ");
  EXPECT_EQ(five.seconds, Bits({0}));
  EXPECT_EQ(five.minutes, Bits({0}));
  EXPECT_EQ(five.hours, Bits({3, 6, 9}));
  EXPECT_EQ(five.days_of_month, kEveryDayOfMonthMask);
  EXPECT_EQ(five.months, kEveryMonthMask);
  EXPECT_EQ(five.days_of_week, kEveryWeekdayMask);
  EXPECT_FALSE(five.second_written || five.day_of_month_restricted || five.day_of_week_restricted);
  const CronExpression six = Parsed("5,10 1 2 3 4 5");
  EXPECT_TRUE(six.second_written);
  EXPECT_EQ(six.seconds, Bits({5, 10}));
  EXPECT_EQ(six.minutes, Bits({1}));
  EXPECT_EQ(six.days_of_week, Bits({5}));
}

TEST(CronExpressionTest, StepsCountFromTheStartOfTheirRangeAndAcrossTheWrap) {
  EXPECT_EQ(Parsed("50-10/5 * * * *").minutes, Bits({50, 55, 0, 5, 10}));
  EXPECT_EQ(Parsed("7/20 * * * *").minutes, Bits({7, 27, 47}));
  EXPECT_EQ(Parsed("*/25 * * * *").minutes, Bits({0, 25, 50}));
  EXPECT_EQ(Parsed("0 22-2 * * *").hours, Bits({22, 23, 0, 1, 2}));
  EXPECT_EQ(Parsed("0 0 30-3/2 * *").days_of_month, Bits({30, 1, 3}));
  EXPECT_EQ(Parsed("0 0 * NOV-feb *").months, Bits({11, 12, 1, 2}));
}

TEST(CronExpressionTest, SundayIsZeroAndSeven) {
  EXPECT_EQ(Parsed("0 0 * * 7").days_of_week, Bits({0}));
  EXPECT_EQ(Parsed("0 0 * * 5-7").days_of_week, Bits({5, 6, 0}));
  EXPECT_EQ(Parsed("0 0 * * FRI-SUN").days_of_week, Bits({5, 6, 0}));
  EXPECT_EQ(Parsed("0 0 * * 7-2").days_of_week, Bits({0, 1, 2}));
  EXPECT_EQ(Parsed("0 0 * * 3/2").days_of_week, Bits({3, 5, 0}));
  EXPECT_EQ(Parsed("0 0 * * */2").days_of_week, Bits({0, 2, 4, 6}));
}

TEST(CronExpressionTest, OnlyAStarOrQuestionMarkLeavesADayFieldUnrestricted) {
  EXPECT_FALSE(Parsed("0 0 ? * ?").day_of_month_restricted);
  EXPECT_FALSE(Parsed("0 0 ? * ?").day_of_week_restricted);
  EXPECT_TRUE(Parsed("0 0 */1 * *").day_of_month_restricted);
  EXPECT_TRUE(Parsed("0 0 * * 0-6").day_of_week_restricted);
}

TEST(CronExpressionTest, TellsARhythmFromATimeOfDay) {
  for (const char* text : {"* 3 * * *", "0 * * * *", "0-59 3 * * *", "*/5 3 * * *",
                           "0 1-23/2 * * *", "* 0 3 * * *", "0 0-23 * * *", "@hourly"}) {
    EXPECT_TRUE(Parsed(text).periodic) << text;
  }
  for (const char* text :
       {"0 3 * * *", "0,30 3,4 */2 * *", "0 0 3 * */2 *", "@daily", "0-58 3 * * *"}) {
    EXPECT_FALSE(Parsed(text).periodic) << text;
  }
}

TEST(CronExpressionTest, MacrosAreTheirExpansion) {
  EXPECT_EQ(Parsed("@YEARLY"), Parsed("0 0 1 1 *"));
  EXPECT_EQ(Parsed("@annually"), Parsed("0 0 1 1 *"));
  EXPECT_EQ(Parsed("@Monthly"), Parsed("0 0 1 * *"));
  EXPECT_EQ(Parsed("@weekly"), Parsed("0 0 * * 0"));
  EXPECT_EQ(Parsed(" @midnight "), Parsed("0 0 * * *"));
  EXPECT_EQ(Parsed("@hourly"), Parsed("0 * * * *"));
}

TEST(CronExpressionTest, RefusalsNameTheFieldAndTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "cron: 0 fields"},
      {"* * * *", "cron: 4 fields"},
      {"* * * * * * 2026", "year"},
      {"* * * * * * * *", "cron: 8 fields"},
      {"60 * * * *", "minute: 60 is outside 0-59"},
      {"* 24 * * *", "hour: 24 is outside 0-23"},
      {"* * 0 * *", "day-of-month: 0 is outside 1-31"},
      {"* * * 13 *", "month: 13 is outside"},
      {"* * * * 8", "day-of-week: 8 is outside"},
      {"61 * * * * *", "second: 61"},
      {"1,,2 * * * *", "minute: an item of the list is empty"},
      {"1, * * * *", "minute: an item of the list is empty"},
      {"1,* * * * *", "minute: a bare * inside a list"},
      {"*/0 * * * *", "minute: step 0 is outside 1-59"},
      {"*/60 * * * *", "minute: step 60"},
      {"*/x * * * *", "minute: \"x\" is not a step"},
      {"5/ * * * *", "minute: \"\" is not a step"},
      {"1- * * * *", "minute: a value is missing"},
      {"-1 * * * *", "minute: a value is missing"},
      {"1-2-3 * * * *", "minute: \"2-3\" is not a value"},
      {"*-5 * * * *", "minute: \"*\" must stand alone"},
      {"001 * * * *", "minute: \"001\" is not a value"},
      {"? * * * *", "minute: ? is for the day fields only"},
      {"* * ?,1 * *", "day-of-month: \"?\" must stand alone"},
      {"* * * JANUARY *", "month: \"JANUARY\" is not a value"},
      {"* * * * MON-", "day-of-week: a value is missing"},
      {"MON * * * *", "minute: \"MON\" is not a value"},
      {"0 0 L * *", "day-of-month: L (last)"},
      {"0 0 L-3 * *", "day-of-month: L (last)"},
      {"0 0 15W * *", "day-of-month: W (nearest weekday)"},
      {"0 0 * * 5L", "day-of-week: L (last)"},
      {"0 0 * * FRI#2", "day-of-week: # (k-th"},
      {"0 0 1 * +MON", "day-of-week: a leading +"},
      {"@reboot", "unknown macro"},
      {"@every 5m", "cron: 2 fields"},
      {"0 0 * * *\n", "character"},
      {"0 0 * * \xc3\xa9", "character"},
  };
  for (const auto& [text, reason] : cases) {
    const auto e = ParseCron(text);
    ASSERT_FALSE(e.ok()) << text;
    EXPECT_EQ(e.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(e.status().message()), HasSubstr(reason)) << text;
  }
  EXPECT_FALSE(ParseCron(std::string(1100, ' ') + "* * * * *").ok());
}

TEST(CronExpressionTest, FieldsByNameAreTheSame) {
  EXPECT_EQ(ParseCronFields({.minute = "0", .hour = "3,6,9"}).value(), Parsed("0 3,6,9 * * *"));
  EXPECT_EQ(ParseCronFields({.second = "5", .minute = "*", .hour = "*", .month = "JAN"}).value(),
            Parsed("5 * * * JAN *"));
  EXPECT_THAT(std::string(ParseCronFields({.hour = "3"}).status().message()),
              HasSubstr("minute: required"));
  EXPECT_THAT(std::string(ParseCronFields({.minute = "3"}).status().message()),
              HasSubstr("hour: required"));
  EXPECT_FALSE(ParseCronFields({.minute = "0 5", .hour = "3"}).ok());
}

}  // namespace
}  // namespace escapement::cron
