#include "common/cron/cron_expression.h"

#include <initializer_list>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace cron_expression_test {

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

TEST(CronExpressionTest, DistinguishesRhythmFromTimeOfDay) {
  for (const char* text : {"* 3 * * *", "0 * * * *", "0-59 3 * * *", "*/5 3 * * *",
                           "0 1-23/2 * * *", "* 0 3 * * *", "0 0-23 * * *", "@hourly"}) {
    EXPECT_TRUE(Parsed(text).periodic) << text;
  }
  for (const char* text :
       {"0 3 * * *", "0,30 3,4 */2 * *", "0 0 3 * */2 *", "@daily", "0-58 3 * * *"}) {
    EXPECT_FALSE(Parsed(text).periodic) << text;
  }
}

YearSet Years(std::initializer_list<int> years) {
  YearSet set;
  set.bits = {};
  for (int year : years) set.bits[(year - 1970) / 64] |= uint64_t{1} << ((year - 1970) % 64);
  return set;
}

TEST(CronExpressionTest, ReadsTheYearOfSevenFields) {
  const CronExpression e = Parsed("0 0 0 1 1 * 2030,2027-2029");
  EXPECT_EQ(e.years, Years({2027, 2028, 2029, 2030}));
  EXPECT_TRUE(e.second_written);
  EXPECT_TRUE(Parsed("0 0 0 1 1 * *").years.Every());
  EXPECT_EQ(Parsed("0 0 0 1 1 * 2190/4").years, Years({2190, 2194, 2198}));
  EXPECT_EQ(Parsed("0 0 0 1 1 * */229").years, Years({1970, 2199}));
  EXPECT_EQ(Parsed("0 0 0 1 1 * 1970-2199/100").years, Years({1970, 2070, 2170}));
  EXPECT_EQ(Parsed("0 0 0 1 1 * *"), Parsed("0 0 0 1 1 *"));
}

TEST(CronExpressionTest, YearsAreFoundInBothDirections) {
  const YearSet years = Years({1970, 2033, 2034, 2199});
  EXPECT_TRUE(years.Has(2034));
  EXPECT_FALSE(years.Has(2035) || years.Has(1969) || years.Has(2200));
  EXPECT_EQ(years.AtOrAfter(0), 1970);
  EXPECT_EQ(years.AtOrAfter(1971), 2033);
  EXPECT_EQ(years.AtOrAfter(2035), 2199);
  EXPECT_EQ(years.AtOrAfter(2200), 0);
  EXPECT_EQ(years.AtOrBefore(2300), 2199);
  EXPECT_EQ(years.AtOrBefore(2198), 2034);
  EXPECT_EQ(years.AtOrBefore(2032), 1970);
  EXPECT_EQ(years.AtOrBefore(1969), 0);
}

TEST(CronExpressionTest, ReadsDaysFromTheEndOfTheMonthAndNearestWeekdays) {
  const CronExpression e = Parsed("0 0 L,l-3,L-30,15W,1w,LW,L-2W,7-8 * *");
  EXPECT_EQ(e.days_before_last, Bits({0, 3, 30}));
  EXPECT_EQ(e.weekdays_near_day, Bits({1, 15}));
  EXPECT_EQ(e.weekdays_near_last, Bits({0, 2}));
  EXPECT_EQ(e.days_of_month, Bits({7, 8}));
  EXPECT_TRUE(e.day_of_month_restricted);
  EXPECT_EQ(Parsed("0 0 L-0 * *"), Parsed("0 0 L * *"));
}

TEST(CronExpressionTest, ReadsTheKthAndTheLastWeekday) {
  const CronExpression e = Parsed("0 0 * * MON#1,5#5,sunL,3#L,7#2,TUE");
  EXPECT_EQ(e.weekdays_of_month, Bits({1, 28 + 5, 35, 35 + 3, 7}));
  EXPECT_EQ(e.days_of_week, Bits({2}));
  EXPECT_EQ(Parsed("0 0 * * FRIL"), Parsed("0 0 * * 5#L"));
}

TEST(CronExpressionTest, APlusMakesBothDayFieldsMatch) {
  EXPECT_TRUE(Parsed("0 0 13 * +FRI").both_days_match);
  EXPECT_TRUE(Parsed("0 0 13 * +*/2").both_days_match);
  EXPECT_TRUE(Parsed("0 0 L * +FRI#L,1").both_days_match);
  EXPECT_FALSE(Parsed("0 0 13 * FRI").both_days_match);
  EXPECT_EQ(Parsed("0 0 * * +FRI"), Parsed("0 0 * * FRI")) << "one restricted field decides";
}

TEST(CronExpressionTest, NamesReplaceAnyValue) {
  EXPECT_EQ(Parsed("0 0 * jan,MAR-May,oct/2 *").months, Bits({1, 3, 4, 5, 10, 12}));
  EXPECT_EQ(Parsed("0 0 * 11-FEB *").months, Bits({11, 12, 1, 2}));
  EXPECT_EQ(Parsed("0 0 * * sat-1/2").days_of_week, Bits({6, 1}));
  EXPECT_EQ(Parsed("0 0 * * thu/2").days_of_week, Bits({4, 6}));
}

TEST(CronExpressionTest, AnExclusionWithoutASecondHasEverySecond) {
  EXPECT_EQ(ParseExclusion("0 3 * * *")->seconds, kEverySecondMask);
  EXPECT_EQ(ParseExclusion("@daily")->seconds, kEverySecondMask);
  EXPECT_EQ(ParseExclusion("0 0 3 * * *")->seconds, Bits({0}));
  EXPECT_FALSE(ParseExclusion("0 25 * * *").ok());
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
      {"0 0 L/2 * *", "day-of-month: \"L/2\": items with L, W or #"},
      {"0 0 1-L * *", "day-of-month: \"1-L\": items with L, W or #"},
      {"0 0 L-L * *", "day-of-month: \"L-L\": items"},
      {"0 0 15W-20 * *", "day-of-month: \"15W-20\": items"},
      {"0 0 5-15W * *", "day-of-month: \"5-15W\": items"},
      {"0 0 15W/2 * *", "day-of-month: \"15W/2\": items"},
      {"0 0 L-31 * *", "day-of-month: L-31: 31 is outside 0-30"},
      {"0 0 L- * *", "day-of-month: \"L-\" is not a value"},
      {"0 0 L3 * *", "day-of-month: \"L3\" is not a value"},
      {"0 0 3L * *", "day-of-month: \"3L\" is not a value"},
      {"0 0 LL * *", "day-of-month: \"LL\" is not a value"},
      {"0 0 W * *", "day-of-month: W needs a day"},
      {"0 0 0W * *", "day-of-month: 0 is outside 1-31"},
      {"0 0 32W * *", "day-of-month: 32 is outside 1-31"},
      {"0 0 1,L, * *", "day-of-month: an item of the list is empty"},
      {"0 0 1#2 * *", "day-of-month: \"1#2\" is not a value"},
      {"0 0 +1 * *", "day-of-month: + may stand only"},
      {"0 0 * L *", "month: \"L\" is not a value"},
      {"0 L * * *", "hour: \"L\" is not a value"},
      {"0 0 * * L", "day-of-week: L needs a weekday"},
      {"0 0 * * MON,l", "day-of-week: L needs a weekday"},
      {"0 0 * * #2", "day-of-week: a value is missing"},
      {"0 0 * * 8#2", "day-of-week: 8 is outside 0-7"},
      {"0 0 * * 1#0", "day-of-week: 0 after # is outside 1-5"},
      {"0 0 * * 1#6", "day-of-week: 6 after # is outside 1-5"},
      {"0 0 * * 1#", "day-of-week: \"\" after # is neither"},
      {"0 0 * * 1#x", "day-of-week: \"x\" after # is neither"},
      {"0 0 * * 1#2#3", "day-of-week: \"2#3\" after # is neither"},
      {"0 0 * * 1#1-3", "day-of-week: \"1#1-3\": items with L, W or #"},
      {"0 0 * * 1-5L", "day-of-week: \"1-5L\": items"},
      {"0 0 * * 5L/2", "day-of-week: \"5L/2\": items"},
      {"0 0 * * 15W", "day-of-week: \"15W\" is not a value"},
      {"0 0 1 * +", "day-of-week: a value is missing"},
      {"0 0 1 * +*", "day-of-week: a leading + needs"},
      {"0 0 1 * +?", "day-of-week: a leading + needs"},
      {"0 0 1 * ++MON", "day-of-week: + may stand only once"},
      {"0 0 1 * MON,+TUE", "day-of-week: + may stand only once"},
      {"0 0 1 * +,MON", "day-of-week: an item of the list is empty"},
      {"0 0 0 1 1 * 1969", "year: 1969 is outside 1970-2199"},
      {"0 0 0 1 1 * 2200", "year: 2200 is outside"},
      {"0 0 0 1 1 * 70", "year: 70 is outside"},
      {"0 0 0 1 1 * 02026", "year: \"02026\" is not a value"},
      {"0 0 0 1 1 * 2030-2027", "year: the range 2030-2027 runs backwards"},
      {"0 0 0 1 1 * */230", "year: step 230 is outside 1-229"},
      {"0 0 0 1 1 * ?", "year: ? is for the day fields only"},
      {"0 0 0 1 1 * L", "year: \"L\" is not a value"},
      {"0 0 0 1 1 * 2026,", "year: an item of the list is empty"},
      {"*/0001 * * * *", "minute: \"0001\" is not a step"},
      {"5/60 * * * *", "minute: step 60 is outside 1-59"},
      {"0 0 * */13 *", "month: step 13 is outside 1-12"},
      {"0 0 * * */8", "day-of-week: step 8 is outside 1-7"},
      {"@every 5m", "cron: 2 fields"},
      {"@ daily", "cron: 2 fields"},
      {"@", "unknown macro"},
      {"* * * * @daily", "day-of-week: \"@daily\" is not a value"},
      {"@reboot", "unknown macro"},
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
  EXPECT_EQ(
      ParseCronFields(
          {.minute = "0", .hour = "3", .day_of_month = "LW", .day_of_week = "+FRI", .year = "2027"})
          .value()
          .both_days_match,
      true);
  EXPECT_EQ(ParseCronFields({.second = "0", .minute = "0", .hour = "3", .year = "2027"}).value(),
            Parsed("0 0 3 * * * 2027"));
  CronExpression unwritten = Parsed("0 0 3 * * * 2027");
  unwritten.second_written = false;
  EXPECT_EQ(ParseCronFields({.minute = "0", .hour = "3", .year = "2027"}).value(), unwritten);
  EXPECT_THAT(std::string(ParseCronFields({.hour = "3"}).status().message()),
              HasSubstr("minute: is required"));
  EXPECT_THAT(std::string(ParseCronFields({.minute = "3"}).status().message()),
              HasSubstr("hour: is required"));
  EXPECT_FALSE(ParseCronFields({.minute = "0 5", .hour = "3"}).ok());
}

}  // namespace cron_expression_test
}  // namespace escapement::cron
