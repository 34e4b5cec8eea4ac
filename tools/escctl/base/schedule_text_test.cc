#include <google/protobuf/text_format.h>

#include "gtest/gtest.h"
#include "tools/escctl/base/resource_text.h"

namespace escapement::escctl {
namespace schedule_text_test {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(ScheduleText, EachKindOfTimetableHasAShortForm) {
  const auto when = [](const std::string& text) { return WhenOf(Parse<v1::Schedule>(text)); };
  EXPECT_EQ(when("cron: '0 3 * * *'"), "0 3 * * *");
  EXPECT_EQ(when("cron_fields { hour: '3' minute: '0' }"), "0 3 * * *");
  EXPECT_EQ(when("cron_fields { hour: '3' minute: '0' second: '5' month: 'JAN' }"),
            "5 0 3 * JAN *");
  EXPECT_EQ(when("cron_fields { hour: '3' minute: '0' year: '2030' }"), "0 0 3 * * * 2030");
  EXPECT_EQ(when("interval { every { seconds: 5400 nanos: 500000000 } }"), "every 1h30m0.5s");
  EXPECT_EQ(when("times { seconds: 1 }"), "1 time");
  EXPECT_EQ(when("times { seconds: 1 } times { seconds: 2 }"), "2 times");
}

TEST(ScheduleText, APreviewIsATableAndWords) {
  const auto preview = Parse<v1::PreviewScheduleResponse>(R"(
    description: "At 02:30, every day" tz_version: "2026f"
    occurrences { time { seconds: 1806197400 } local_time: "2027-03-28T03:30:00+02:00"
                  note: "GAP_SHIFTED" occurrence: "20270328T023000-0-Europe~Berlin" }
    occurrences { time { seconds: 1806283800 nanos: 500000000 } local_time: "x" occurrence: "y" }
    warnings: "one" warnings: "two")");
  EXPECT_EQ(FormatTable(PreviewHeader(), PreviewRows(preview)),
            "TIME                      LOCAL TIME                 NOTE         OCCURRENCE\n"
            "2027-03-28T01:30:00Z      2027-03-28T03:30:00+02:00  GAP_SHIFTED  "
            "20270328T023000-0-Europe~Berlin\n"
            "2027-03-29T01:30:00.500Z  x                          -            y\n");
  EXPECT_EQ(PreviewWords(preview), (std::vector<std::string>{"At 02:30, every day (tzdata 2026f)",
                                                             "warning: one", "warning: two"}));
}

TEST(ScheduleText, AForecastHasALineForEachHour) {
  auto forecast = Parse<v1::ForecastLoadResponse>(R"(
    start_time { seconds: 1806197280 }  # 01:28
    event_count: 41903 schedule_count: 12 jittered_schedule_count: 1 other: true
    groups { key: "gentle" event_count: 41000 schedule_count: 1 }
    groups { event_count: 3 schedule_count: 2 }
    groups { event_count: 900 schedule_count: 9 }
    busy_minutes { time { seconds: 1806199200 } event_count: 41001 schedule_count: 7
                   sources { schedule: "tenants/t/schedules/nightly" event_count: 41000 }
                   sources { schedule: "tenants/t/schedules/b" event_count: 1 } }
    quiet_minutes { time { seconds: 1806199200 } event_count: 41001 schedule_count: 7 }
    quiet_minutes { time { seconds: 1806199620 } event_count: 900 schedule_count: 1 })");
  for (int minute = 0; minute < 100; ++minute)
    forecast.add_events_per_minute(minute == 1    ? 2
                                   : minute == 32 ? 41'001
                                   : minute == 39 ? 900
                                                  : 0);
  EXPECT_EQ(ForecastTables(forecast),
            "HOUR               EVENTS  BUSIEST MINUTE  AT\n"
            "2027-03-28T01:28Z  2       2               01:29Z  #\n"
            "2027-03-28T02:00Z  41901   41001           02:00Z  "
            "########################################\n"
            "2027-03-28T03:00Z  0       0               -\n"
            "\n"
            "GROUP         EVENTS  SCHEDULES\n"
            "gentle        41000   1\n"
            "(none)        3       2\n"
            "(all others)  900     9\n"
            "\n"
            "BUSY MINUTE        EVENTS  SCHEDULES  MOST EVENTS\n"
            "2027-03-28T02:00Z  41001   7          nightly 41000, b 1, and 5 more\n"
            "\n"
            "NEAR               EVENTS  SCHEDULES\n"
            "2027-03-28T02:00Z  41001   7\n"
            "2027-03-28T02:07Z  900     1\n");
  EXPECT_EQ(ForecastWords(forecast), "41903 events of 12 schedules, 1 with jitter");
}

}  // namespace schedule_text_test
}  // namespace escapement::escctl
