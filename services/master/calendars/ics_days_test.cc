// Files of calendars, as holidays are published. tests/oracles compares rules of recurrence with
// another implementation.

#include "services/master/calendars/ics_days.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/codec/calendar_codec.h"

namespace escapement::master {
namespace ics_days_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const int64_t kToday = ParseDay("2026-11-30").value();

// Reads the text, with CRLF for each LF.
std::string DaysIn(const std::string& text) {
  const auto days = IcsDays(absl::StrReplaceAll(text, {{"\n", "\r\n"}}), kToday);
  if (!days.ok()) return absl::StrCat("error: ", days.status().message());
  std::vector<std::string> texts;
  for (const int32_t day : *days) texts.push_back(DayText(day));
  return absl::StrJoin(texts, " ");
}

std::string OfEvent(const std::string& lines) {
  return DaysIn(absl::StrCat("BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\n", lines,
                             "\nEND:VEVENT\nEND:VCALENDAR\n"));
}

TEST(IcsDaysTest, HolidaysOfAPublicFileAreRead) {
  EXPECT_EQ(DaysIn(R"(BEGIN:VCALENDAR
PRODID:-//Google Inc//Google Calendar 70.9054//EN
VERSION:2.0
CALSCALE:GREGORIAN
METHOD:PUBLISH
X-WR-CALNAME:Holidays in Germany
X-WR-TIMEZONE:UTC
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:DAYLIGHT
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261225
DTEND;VALUE=DATE:20261227
DTSTAMP:20261001T082000Z
UID:20261225_1@google.com
CLASS:PUBLIC
DESCRIPTION:Public holiday\nTo hide observances\, go to Google Calendar Set
 tings: DTSTART:19990101
STATUS:CONFIRMED
SUMMARY:Christmas
TRANSP:TRANSPARENT
BEGIN:VALARM
TRIGGER;VALUE=DATE-TIME:20261224T090000Z
DURATION:P3D
END:VALARM
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20270101
UID:20270101_1@google.com
SUMMARY;LANGUAGE="de:x;y":Neujahr
END:VEVENT
END:VCALENDAR
)"),
            "2026-12-25 2026-12-26 2027-01-01");
}

TEST(IcsDaysTest, EventsWithTimesHaveTheDaysOfTheirZone) {
  EXPECT_EQ(OfEvent("DTSTART;TZID=Asia/Tokyo:20270101T000000\n"
                    "DTEND;TZID=Asia/Tokyo:20270102T000000"),
            "2027-01-01");
  EXPECT_EQ(OfEvent("DTSTART;TZID=Asia/Tokyo:20270101T233000\nDURATION:PT1H"),
            "2027-01-01 2027-01-02");
  EXPECT_EQ(OfEvent("DTSTART:20270101T233000Z\nDTEND:20270101T233000Z"), "2027-01-01");
  EXPECT_EQ(OfEvent("DTSTART;VALUE=DATE:20270101\nDURATION:P1W"),
            "2027-01-01 2027-01-02 2027-01-03 2027-01-04 2027-01-05 2027-01-06 2027-01-07");
  // 00:30 in Tokyo is 15:30 UTC of the day before: the exclusion is one of the same instant.
  EXPECT_EQ(OfEvent("DTSTART;TZID=Asia/Tokyo:20270101T003000\nRRULE:FREQ=DAILY;COUNT=3\n"
                    "EXDATE:20270101T153000Z"),
            "2027-01-01 2027-01-03");
  EXPECT_EQ(OfEvent("DTSTART;TZID=Asia/Tokyo:20270101T003000\n"
                    "RRULE:FREQ=DAILY;UNTIL=20270102T152959Z"),
            "2027-01-01 2027-01-02");
}

TEST(IcsDaysTest, RulesGiveDaysFromAYearAgoToTenYearsAhead) {
  const std::string christmas = OfEvent("DTSTART;VALUE=DATE:19701225\nRRULE:FREQ=YEARLY");
  EXPECT_EQ(christmas,
            "2025-12-25 2026-12-25 2027-12-25 2028-12-25 2029-12-25 2030-12-25 2031-12-25 "
            "2032-12-25 2033-12-25 2034-12-25 2035-12-25");
  EXPECT_EQ(OfEvent("DTSTART;VALUE=DATE:20241128\n"
                    "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;UNTIL=20281231"),
            "2026-11-26 2027-11-25 2028-11-23");
  EXPECT_EQ(OfEvent("DTSTART;VALUE=DATE:20270115\nRDATE;VALUE=DATE:20270201,20270301\n"
                    "EXDATE;VALUE=DATE:20270115"),
            "2027-02-01 2027-03-01");
}

TEST(IcsDaysTest, OneChangedOccurrenceReplacesThatOfItsRule) {
  EXPECT_EQ(DaysIn("BEGIN:VCALENDAR\n"
                   "BEGIN:VEVENT\nUID:a\nDTSTART;VALUE=DATE:20270104\n"
                   "RRULE:FREQ=WEEKLY;COUNT=3\nEND:VEVENT\n"
                   "BEGIN:VEVENT\nUID:a\nRECURRENCE-ID;VALUE=DATE:20270111\n"
                   "DTSTART;VALUE=DATE:20270112\nEND:VEVENT\n"
                   "BEGIN:VEVENT\nUID:a\nRECURRENCE-ID;VALUE=DATE:20270118\n"
                   "DTSTART;VALUE=DATE:20270118\nSTATUS:CANCELLED\nEND:VEVENT\n"
                   "END:VCALENDAR\n"),
            "2027-01-04 2027-01-12");
}

TEST(IcsDaysTest, TextsThatAreNoCalendarAreRefusedWithTheLine) {
  EXPECT_EQ(DaysIn("<html>"), "error: line 1 has no value");
  EXPECT_EQ(DaysIn("DTSTART:20270101"), "error: line 1 stands before BEGIN:VCALENDAR");
  EXPECT_EQ(DaysIn("BEGIN:VEVENT"), "error: line 1 must be BEGIN:VCALENDAR");
  EXPECT_EQ(DaysIn("BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR"), "error: line 3 has no BEGIN");
  EXPECT_EQ(DaysIn("BEGIN:VCALENDAR"), "error: BEGIN:VCALENDAR has no END");
  EXPECT_EQ(OfEvent("SUMMARY:x"), "error: line 5 ends an event without DTSTART");
  EXPECT_EQ(DaysIn(""), "error: is empty");
  EXPECT_EQ(DaysIn("BEGIN:VCALENDAR\nEND:VCALENDAR\n"),
            "error: has no event on a day of 1970 to 2199");
  for (const char* start : {"2027010", "20270230", "20270101T250000", "20270101T0000", "x"}) {
    EXPECT_EQ(OfEvent(absl::StrCat("DTSTART:", start)),
              "error: line 4 must be a date, or a date and time");
  }
  EXPECT_EQ(OfEvent("DTSTART:20270102\nDTEND:20270101"), "error: an event ends before it begins");
  EXPECT_EQ(OfEvent("DTSTART:20270102\nDURATION:P400D"), "error: an event is longer than 366 days");
}

TEST(IcsDaysTest, RulesThatCannotBeReadAreRefused) {
  for (const char* rule :
       {"FREQ=HOURLY", "FREQ=YEARLY;BYWEEKNO=20", "FREQ=DAILY;BYHOUR=3", "BYMONTH=3",
        "FREQ=YEARLY;BYMONTH=13", "FREQ=YEARLY;BYMONTH=-1", "FREQ=YEARLY;BYDAY=0MO",
        "FREQ=YEARLY;BYDAY=XX", "FREQ=WEEKLY;BYDAY=1MO", "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;COUNT=3;UNTIL=20270101", "FREQ=DAILY;UNTIL=soon", "FREQ=DAILY;X=1",
        "FREQ=MONTHLY;BYYEARDAY=1", "FREQ=WEEKLY;BYMONTHDAY=1", "FREQ=DAILY;BYDAY=MO;BYDAY=TU",
        "FREQ=DAILY;COUNT=1,2", ""}) {
    EXPECT_THAT(OfEvent(absl::StrCat("DTSTART:20270101\nRRULE:", rule)), HasSubstr("error: line 5"))
        << rule;
  }
  EXPECT_THAT(OfEvent("DTSTART:20270101\nEXRULE:FREQ=DAILY"), HasSubstr("error: line 5"));
}

TEST(IcsDaysTest, HolidaysOf200RulesAreRead) {
  std::string events;
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&events, "BEGIN:VEVENT\nDTSTART:197101", i % 2 == 0 ? "01" : "06",
                    "\nRRULE:FREQ=YEARLY\nEND:VEVENT\n",
                    "BEGIN:VEVENT\nDTSTART:20270501\nEND:VEVENT\n");
  }
  EXPECT_THAT(DaysIn("BEGIN:VCALENDAR\n" + events + "END:VCALENDAR"),
              StartsWith("2026-01-01 2026-01-06 2027-01-01 2027-01-06 2027-05-01 2028-01-01"));
}

// A list of 1 MiB in a rule.
std::string LongList(const std::string& item) {
  std::string list = item;
  while (list.size() + item.size() < kIcsBytesMax - 1000) absl::StrAppend(&list, ",", item);
  return list;
}

TEST(IcsDaysTest, LongListsCostADayNothing) {
  EXPECT_EQ(OfEvent("DTSTART:19700101\nRRULE:FREQ=DAILY;COUNT=20818;BYMONTH=2;BYMONTHDAY=" +
                    LongList("29")),
            "2028-02-29 2032-02-29 2036-02-29");
  EXPECT_EQ(OfEvent("DTSTART:19700101\nRRULE:FREQ=YEARLY;COUNT=100000;BYDAY=" + LongList("53FR")),
            "2027-12-31 2032-12-31");
  EXPECT_EQ(
      OfEvent("DTSTART:19700101\nRRULE:FREQ=YEARLY;COUNT=57;BYDAY=MO;BYSETPOS=" + LongList("-1")),
      "2025-12-29 2026-12-28");
}

// A calendar with `count` times the event.
std::string Repeated(int count, const std::string& lines) {
  std::string text = "BEGIN:VCALENDAR\n";
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, "BEGIN:VEVENT\n", lines, "\nEND:VEVENT\n");
  return text + "END:VCALENDAR";
}

TEST(IcsDaysTest, HostileFilesAreBounded) {
  EXPECT_THAT(OfEvent("DTSTART:20270101\nRRULE:FREQ=DAILY"), HasSubstr("more than 1000 days"));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "BEGIN:A\n";
  EXPECT_THAT(DaysIn("BEGIN:VCALENDAR\n" + nested), HasSubstr("nested too deep"));
  EXPECT_THAT(DaysIn(std::string(kIcsBytesMax + 1, 'x')), HasSubstr("more than 1048576 bytes"));
  std::string never;
  for (int i = 0; i < kIcsEventsMax; ++i) {
    never +=
        "BEGIN:VEVENT\nDTSTART:20270101\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=31\n"
        "END:VEVENT\n";
  }
  EXPECT_THAT(DaysIn("BEGIN:VCALENDAR\n" + never + "END:VCALENDAR"),
              HasSubstr("too many recurrences"));
  EXPECT_THAT(DaysIn("BEGIN:VCALENDAR\n" + never + "BEGIN:VEVENT\n"),
              HasSubstr("beyond 10000 events"));

  const std::string too_much = "error: has too many recurrences; use rules instead";
  const std::string too_early = "error: a rule with COUNT must start in 1970 or later";
  for (const std::string& rule : {std::string("FREQ=YEARLY;COUNT=100000"),
                                  "FREQ=DAILY;COUNT=100000;BYMONTHDAY=" + LongList("9"),
                                  "FREQ=YEARLY;COUNT=100000;BYDAY=" + LongList("53MO")}) {
    EXPECT_EQ(OfEvent("DTSTART:00010101\nRRULE:" + rule), too_early);
    EXPECT_EQ(OfEvent("DTSTART:19691231\nRRULE:" + rule), too_early);
  }
  EXPECT_EQ(DaysIn(Repeated(490,
                            "DTSTART:20200101\n"
                            "RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=31;BYDAY=MO")),
            too_much);
  // Rules that have ended try no day.
  std::string rules = "DTSTART:20200101";
  for (int i = 0; i <= kIcsEventsMax; ++i)
    absl::StrAppend(&rules, "\nRRULE:FREQ=YEARLY;UNTIL=19700101");
  EXPECT_THAT(OfEvent(rules), HasSubstr("beyond 10000 rules"));
  // Events that cover the same days.
  EXPECT_EQ(DaysIn(Repeated(9999, "DTSTART:20260101\nDURATION:P366D")), too_much);
  EXPECT_EQ(DaysIn(Repeated(99, "DTSTART:20260101\nDURATION:P366D\nRRULE:FREQ=DAILY;COUNT=300")),
            too_much);
  // Each of the events without RECURRENCE-ID is excluded on each of the days.
  EXPECT_EQ(DaysIn(Repeated(4999,
                            "DTSTART:20270101\nRECURRENCE-ID:20270101\nEND:VEVENT\n"
                            "BEGIN:VEVENT\nDTSTART:20270101")),
            too_much);
}

}  // namespace ics_days_test
}  // namespace escapement::master
