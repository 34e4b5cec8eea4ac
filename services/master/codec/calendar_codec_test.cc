#include "services/master/codec/calendar_codec.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace calendar_codec_test {

using ::testing::ElementsAre;

TEST(CalendarCodecTest, OnlyDaysOf1970To2199AreDays) {
  EXPECT_EQ(ParseDay("1970-01-01"), 0);
  EXPECT_EQ(ParseDay("1970-03-01"), 59);
  EXPECT_EQ(DayText(*ParseDay("2199-12-31")), "2199-12-31");
  EXPECT_EQ(DayText(*ParseDay("2028-02-29")), "2028-02-29");
  for (const char* text :
       {"", "2027-02-29", "2027-13-01", "2027-00-10", "2027-04-31", "1969-12-31", "2200-01-01",
        "2027-1-01", "2027/01/01", "+027-01-01", "2027-01-01 ", "20270101", "2027-01-0x"})
    EXPECT_EQ(ParseDay(text), std::nullopt) << text;
}

TEST(CalendarCodecTest, DatesAreStoredAsDifferences) {
  v1::Calendar calendar;
  for (const char* date : {"2027-01-03", "1970-01-02", "2027-01-01", "2027-01-03"})
    calendar.add_dates(date);
  const auto record = ReadCalendar(calendar, "t");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_THAT(record->days().dates(), ElementsAre(1, 20818, 2));
  EXPECT_THAT(ShowCalendar(*record).dates(), ElementsAre("1970-01-02", "2027-01-01", "2027-01-03"));
}

TEST(CalendarCodecTest, CountsAreBounded) {
  v1::Calendar calendar;
  for (size_t i = 0; i <= kCalendarDatesMax; ++i)
    calendar.add_dates(DayText(static_cast<int64_t>(2 * i)));
  for (int i = 0; i <= kCalendarRulesMax; ++i) calendar.add_rules("* * *");
  for (int i = 0; i <= kCalendarOthersMax; ++i) calendar.add_calendars(absl::StrCat("c", i));
  const absl::Status status = ReadCalendar(calendar, "t").status();
  EXPECT_EQ(FieldViolationsOf(status).size(), 3u) << status;
  calendar.mutable_dates()->RemoveLast();
  calendar.mutable_rules()->RemoveLast();
  calendar.mutable_calendars()->RemoveLast();
  // Twice the same is one.
  calendar.add_dates("1970-01-01");
  EXPECT_TRUE(ReadCalendar(calendar, "t").ok());
}

StoredCalendar Containing(const std::vector<std::string>& others, size_t rules = 0) {
  StoredCalendar stored;
  for (const std::string& other : others) stored.record.add_others(other);
  for (size_t i = 0; i < rules; ++i)
    stored.record.mutable_days()->add_rules(std::string(kCalendarRuleBytesMax, '*'));
  return stored;
}

TEST(CalendarCodecTest, DaysOfContainedCalendarsAreNested) {
  Calendars calendars = {{"a", Containing({"b", "c"})}, {"b", Containing({"c"})},
                         {"c", Containing({})},         {"x", Containing({"y"})},
                         {"y", Containing({"x"})},      {"z", Containing({"none"})}};
  calendars["c"].record.mutable_days()->add_dates(7);
  const auto days = DaysOf(calendars, "a");
  ASSERT_TRUE(days.ok()) << days.status();
  EXPECT_THAT(days->others(0).others(0).dates(), ElementsAre(7));
  EXPECT_THAT(days->others(1).dates(), ElementsAre(7));
  EXPECT_EQ(DaysOf(calendars, "x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DaysOf(calendars, "z").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ContainersOf(calendars, "c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(ContainersOf(calendars, "x"), ElementsAre("x", "y"));
}

TEST(CalendarCodecTest, DaysOfManyContainedCalendarsAreBounded) {
  std::vector<std::string> eight;
  Calendars calendars;
  for (int i = 0; i < kCalendarOthersMax; ++i) {
    eight.push_back(absl::StrCat("c", i));
    calendars[eight.back()] = Containing({}, 4);
  }
  calendars["few"] = Containing(eight);
  calendars["many"] = Containing({"few", "few", "few", "few", "few", "few", "few", "few"});
  EXPECT_TRUE(DaysOf(calendars, "few").ok());
  EXPECT_EQ(DaysOf(calendars, "many").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CalendarCodecTest, RulesOfAllContainedCalendarsAreBounded) {
  Calendars calendars;
  std::vector<std::string> others;
  for (int i = 0; i < kCalendarRulesAllMax / kCalendarRulesMax; ++i) {
    others.push_back(absl::StrCat("c", i));
    StoredCalendar& stored = calendars[others.back()];
    for (int k = 0; k < kCalendarRulesMax; ++k) stored.record.mutable_days()->add_rules("* * SUN");
  }
  calendars["all"] = Containing(others);
  EXPECT_TRUE(DaysOf(calendars, "all").ok());
  calendars["all"].record.mutable_days()->add_rules("* * SAT");
  EXPECT_EQ(DaysOf(calendars, "all").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CalendarCodecTest, OnExcludedFollowsTheCalendar) {
  v1::Schedule current;
  current.set_calendar("tenants/t/calendars/a");
  current.set_on_excluded(v1::OnExcluded::NEXT);
  google::protobuf::FieldMask mask;
  mask.add_paths("calendar");
  auto patched = ApplyMask(current, v1::Schedule(), mask);
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(patched->on_excluded(), v1::OnExcluded::RULE_UNSPECIFIED);
  v1::Schedule patch;
  patch.set_calendar("b");
  patched = ApplyMask(current, patch, mask);
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(patched->calendar(), "b");
  EXPECT_EQ(patched->on_excluded(), v1::OnExcluded::NEXT);
}

}  // namespace calendar_codec_test
}  // namespace escapement::master
