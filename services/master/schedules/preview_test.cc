#include <set>
#include <string>
#include <vector>

#include "common/cron/zone.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {
namespace preview_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Strings = std::vector<std::string>;

// 2026-12-01T00:00:00Z
Calendars Weekends() {
  StoredCalendar weekends;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "tenant: 't' calendar_id: 'weekends' days { rules: '* * SAT,SUN' }", &weekends.record));
  return {{"weekends", weekends}};
}

const absl::Time kNow = absl::FromUnixSeconds(1'796'083'200);

absl::StatusOr<v1::PreviewScheduleResponse> Of(const std::string& text) {
  v1::PreviewScheduleRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return Preview(request, Weekends(), kNow);
}

Strings LocalTimes(const v1::PreviewScheduleResponse& response) {
  Strings times;
  for (const auto& o : response.occurrences())
    times.push_back(o.note().empty() ? o.local_time() : o.local_time() + " " + o.note());
  return times;
}

Strings Children(const v1::PreviewScheduleResponse& response) {
  Strings children;
  for (const auto& c : response.children())
    children.push_back(c.class_() + " " + c.launch_expression() + " " + c.hour() + ":" +
                       c.minute());
  return children;
}

Strings WrongFields(const absl::Status& status) {
  Strings fields;
  for (const auto& [field, description] : FieldViolationsOf(status)) fields.push_back(field);
  return fields;
}

TEST(Preview, ACronExpressionIsDescribedAndShownInItsZone) {
  const auto preview = Of("cron: '0 3,6,9 * * *' time_zone: 'Asia/Kolkata' count: 4");
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->description(), "At 03:00, 06:00 and 09:00, every day");
  EXPECT_THAT(LocalTimes(*preview),
              ElementsAre("2026-12-01T06:00:00+05:30", "2026-12-01T09:00:00+05:30",
                          "2026-12-02T03:00:00+05:30", "2026-12-02T06:00:00+05:30"));
  EXPECT_EQ(preview->occurrences(0).time().seconds(), 1'796'083'200 + 1800);
  EXPECT_EQ(preview->occurrences(0).occurrence(), "20261201T060000-0-Asia~Kolkata");
  EXPECT_THAT(Children(*preview), ElementsAre("HOUR H:3 3:0", "HOUR H:6 6:0", "HOUR H:9 9:0"));
  EXPECT_THAT(preview->warnings(), IsEmpty());
  EXPECT_EQ(preview->tz_version(), cron::TzdataVersion());
}

TEST(Preview, ANoteSaysWhatAChangeOfTheOffsetDid) {
  const std::string kBerlin =
      "cron: '30 2 * * *' time_zone: 'Europe/Berlin' count: 2 from_time { seconds: 1806150000 } ";
  EXPECT_THAT(LocalTimes(*Of(kBerlin)), ElementsAre("2027-03-28T03:00:00+02:00 GAP_FIRED_AFTER",
                                                    "2027-03-29T02:30:00+02:00"));
  EXPECT_THAT(LocalTimes(*Of(kBerlin + "dst_policy { gap: SHIFT }")),
              ElementsAre("2027-03-28T03:30:00+02:00 GAP_SHIFTED", "2027-03-29T02:30:00+02:00"));
  const auto skipped = Of(kBerlin + "dst_policy { gap: SKIP }");
  EXPECT_THAT(LocalTimes(*skipped),
              ElementsAre("2027-03-29T02:30:00+02:00", "2027-03-30T02:30:00+02:00"));
  EXPECT_THAT(skipped->warnings(),
              ElementsAre("02:30 on 2027-03-28 does not exist in Europe/Berlin: skipped",
                          "02:30 on 2028-03-26 does not exist in Europe/Berlin: skipped"));
  const auto both =
      Of("cron: '30 2 * * *' time_zone: 'Europe/Berlin' count: 2 "
         "from_time { seconds: 1824940000 } dst_policy { overlap: BOTH }");
  EXPECT_THAT(LocalTimes(*both), ElementsAre("2027-10-31T02:30:00+02:00 OVERLAP_FIRST",
                                             "2027-10-31T02:30:00+01:00 OVERLAP_LAST"));
  EXPECT_EQ(both->occurrences(1).occurrence(), "20271031T023000-1-Europe~Berlin");
}

TEST(Preview, TheFirstIsStrictlyAfterFromTime) {
  const auto preview = Of("cron: '* * * * *' count: 1 from_time { seconds: 1796083200 }");
  EXPECT_EQ(preview->occurrences(0).time().seconds(), 1'796'083'260);
  const auto before =
      Of("cron: '* * * * *' count: 1 from_time { seconds: 1796083199 nanos: 999999000 }");
  EXPECT_EQ(before->occurrences(0).time().seconds(), 1'796'083'200);
  EXPECT_EQ(Of("cron: '* * * * *'")->occurrences_size(), 10);  // the default
}

// 2027-01-31 and 2027-02-28 are Sundays.
TEST(Preview, TheDaysOfACalendarDoNotCount) {
  const std::string kLastDay =
      "cron: '0 9 L 1-4 *' count: 3 parent: 'tenants/t' calendar: 'weekends' ";
  const auto skipped = Of(kLastDay);
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  EXPECT_THAT(LocalTimes(*skipped),
              ElementsAre("2027-03-31T09:00:00+00:00", "2027-04-30T09:00:00+00:00",
                          "2028-01-31T09:00:00+00:00"));
  EXPECT_THAT(skipped->description(), HasSubstr("except on days of calendar weekends"));
  EXPECT_THAT(LocalTimes(*Of(kLastDay + "on_excluded: PREVIOUS")),
              ElementsAre("2027-01-29T09:00:00+00:00", "2027-02-26T09:00:00+00:00",
                          "2027-03-31T09:00:00+00:00"));
  const auto next = Of(kLastDay + "on_excluded: NEXT");
  EXPECT_THAT(LocalTimes(*next),
              ElementsAre("2027-02-01T09:00:00+00:00", "2027-03-01T09:00:00+00:00",
                          "2027-03-31T09:00:00+00:00"));
  EXPECT_THAT(next->description(), HasSubstr("to the next other day"));
  const auto interval =
      Of("interval { every { seconds: 86400 } } count: 5 parent: 'tenants/t' "
         "calendar: 'tenants/t/calendars/weekends'");
  ASSERT_TRUE(interval.ok()) << interval.status();
  EXPECT_EQ(LocalTimes(*interval).back(), "2026-12-08T00:00:00+00:00");

  EXPECT_EQ(ErrorReason(Of("cron: '0 9 * * *' parent: 'tenants/t' calendar: 'x'").status()),
            "CALENDAR_NOT_FOUND");
  EXPECT_EQ(
      ErrorReason(Of("cron: '0 9 * * SAT' parent: 'tenants/t' calendar: 'weekends'").status()),
      "IMPOSSIBLE_EXPRESSION");
  EXPECT_THAT(WrongFields(Of("cron: '0 9 * * *' calendar: 'weekends'").status()),
              ElementsAre("parent"));
  EXPECT_THAT(WrongFields(Of("cron: '0 9 * * *' on_excluded: NEXT").status()),
              ElementsAre("on_excluded"));
  EXPECT_THAT(WrongFields(Of("cron: '0 9 * * *' parent: 'tenants/u' "
                             "calendar: 'tenants/t/calendars/weekends'")
                              .status()),
              ElementsAre("calendar"));
}

TEST(Preview, IntervalsAndTimesAreShownAsInstants) {
  const auto interval =
      Of("interval { every { seconds: 5400 } } count: 2 "
         "time_zone: 'America/New_York'");
  ASSERT_TRUE(interval.ok()) << interval.status();
  EXPECT_EQ(interval->description(), "Every 90 minutes");
  EXPECT_THAT(LocalTimes(*interval),
              ElementsAre("2026-11-30T20:30:00-05:00", "2026-11-30T22:00:00-05:00"));
  EXPECT_EQ(interval->occurrences(0).occurrence(), "20261201T013000.000000Z");
  EXPECT_THAT(Children(*interval), ElementsAre("INSTANT  :"));
  // An occurrence at the next microsecond is after a time with a fraction of one.
  const auto fraction = Of(
      "times { seconds: 1800000000 } count: 1 from_time { seconds: 1799999999 nanos: 999999500 }");
  ASSERT_TRUE(fraction.ok()) << fraction.status();
  EXPECT_EQ(fraction->occurrences(0).time().seconds(), 1'800'000'000);
  const auto times =
      Of("times { seconds: 5 } times { seconds: 1800000000 nanos: 500000000 } "
         "times { seconds: 1800000007 }");
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->description(), "At 3 given instants");
  EXPECT_THAT(LocalTimes(*times),
              ElementsAre("2027-01-15T08:00:00.5+00:00", "2027-01-15T08:00:07+00:00"));
  EXPECT_THAT(Children(*times), ElementsAre("INSTANT  :", "INSTANT  :"));
}

TEST(Preview, ADescriptionNamesTheUnitAndWhatRestricts) {
  const auto of = [](const std::string& text) {
    const auto preview = Of(text);
    EXPECT_TRUE(preview.ok()) << preview.status();
    return preview.ok() ? preview->description() : "";
  };
  EXPECT_EQ(of("interval { every { seconds: 1 } }"), "Every second");
  EXPECT_EQ(of("interval { every { seconds: 90 } }"), "Every 90 seconds");
  EXPECT_EQ(of("interval { every { seconds: 7200 } }"), "Every 2 hours");
  EXPECT_EQ(of("interval { every { seconds: 86400 } }"), "Every day");
  EXPECT_EQ(of("interval { every { seconds: 1 nanos: 500000000 } }"), "Every 1.5s");
  EXPECT_EQ(of("times { seconds: 1800000000 }"), "At 1 given instant");
  EXPECT_EQ(of("interval { every { seconds: 60 } } exclusions: '* 4 * * *' exclusions: '* 5 * * *' "
               "schedule_start_time { seconds: 1800000000 } "
               "schedule_end_time { seconds: 1900000000 } time_zone: 'Asia/Tokyo'"),
            "Every minute, except \"* 4 * * *\" and \"* 5 * * *\", from 2027-01-15T17:00:00+09:00 "
            "on, before 2030-03-18T02:46:40+09:00");
  EXPECT_THAT(of("interval { every { seconds: 60 } } exclusions: '* 4 * * *' "
                 "exclusions: '* 5 * * *' exclusions: '* 6 * * *' exclusions: '* 7 * * *'"),
              HasSubstr(", except what 4 exclusions match"));
}

TEST(Preview, AChildThatStandsForSeveralSaysSo) {
  EXPECT_THAT(Children(*Of("cron: '0-29 * * * *'")), ElementsAre("HOUR H:* *:*"));
  EXPECT_THAT(Children(*Of("cron: '0 3 25 12 *'")), ElementsAre("MONTH_DAY MM:12-25 3:0"));
  // All places of the expression, up to the number that can be shown.
  const auto many = Of("cron: '1,2,3,5 1,3,5,7,9,11 1,3,5,7,9,11,13,15,17,19 1,3,5,7,9,11 *'");
  ASSERT_TRUE(many.ok());
  EXPECT_GT(many->children_size(), 1);
  EXPECT_LE(many->children_size(), 1000);
}

TEST(Preview, ExcludedOccurrenceIsPassed) {
  const auto preview = Of("cron: '0 3 * * *' count: 2 exclusions: '* * 1,2 12 *'");
  EXPECT_THAT(LocalTimes(*preview),
              ElementsAre("2026-12-03T03:00:00+00:00", "2026-12-04T03:00:00+00:00"));
}

TEST(Preview, ItSaysSoWhereItDoesNotShowAll) {
  const auto preview =
      Of("interval { every { seconds: 2 } } count: 1000 exclusions: '*/2 1-59 * * * *' "
         "exclusions: '*/2 0 1-23 * * *'");
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_GT(preview->occurrences_size(), 0);
  EXPECT_LT(preview->occurrences_size(), 1000);
  EXPECT_THAT(preview->warnings(0), HasSubstr("not all occurrences are shown"));
}

TEST(Preview, EachWrongFieldIsNamed) {
  const std::vector<std::pair<std::string, Strings>> kCases = {
      {"", {"cron"}},
      {"cron: '0 25 * * *' time_zone: 'X' count: 1001 exclusions: 'x'",
       {"cron", "time_zone", "exclusions[0]", "count"}},
      {"cron: '* * * * *' count: -1 from_time { seconds: -99999999999999 }",
       {"from_time", "count"}},
      {"cron_fields { hour: '25' minute: '0' }", {"cron_fields.hour"}},
      {"interval { every { } }", {"interval.every"}},
      {"times { seconds: 3 } times { seconds: 3 }", {"times[1]"}},
      {"cron: '* * * * *' schedule_start_time { seconds: 9 } schedule_end_time { seconds: 8 }",
       {"schedule_end_time"}},
  };
  for (const auto& [text, fields] : kCases) {
    const auto preview = Of(text);
    EXPECT_TRUE(absl::IsInvalidArgument(preview.status())) << text;
    EXPECT_EQ(ErrorReason(preview.status()), "INVALID_FIELD") << text;
    EXPECT_EQ(WrongFields(preview.status()), fields) << text;
  }
}

TEST(Preview, ScheduleThatNeverFiresHasAReasonOfItsOwn) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"cron: '0 0 30 2 *'", "cron"},
      {"cron: '0 3 * * *' exclusions: '* 3 * * *'", "exclusions"},
      {"cron: '0 3 * * *' schedule_start_time { seconds: 1 } schedule_end_time { seconds: 9 }",
       "schedule_end_time"},
  };
  for (const auto& [text, field] : kCases) {
    const auto preview = Of(text);
    EXPECT_EQ(ErrorReason(preview.status()), "IMPOSSIBLE_EXPRESSION") << text;
    EXPECT_EQ(WrongFields(preview.status()), Strings{field}) << text;
  }
}

TEST(Preview, ThePastIsRefusedUnlessItIsAskedFor) {
  const std::string kPast = "times { seconds: 5 } times { seconds: 9 } ";
  EXPECT_EQ(WrongFields(Of(kPast).status()), Strings{"times"});
  const auto asked = Of(kPast + "from_time { seconds: 5 }");
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_THAT(LocalTimes(*asked), ElementsAre("1970-01-01T00:00:09+00:00"));
  // Nothing is left after from_time, but there will be by then: that is an answer, too.
  const auto over = Of("times { seconds: 1800000000 } from_time { seconds: 1900000000 }");
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_EQ(over->occurrences_size(), 0);
  EXPECT_THAT(over->warnings(), ElementsAre("every occurrence has passed"));
}

}  // namespace preview_test
}  // namespace escapement::master
