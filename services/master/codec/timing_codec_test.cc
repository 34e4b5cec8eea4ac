#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {
namespace timing_codec_test {

using Strings = std::vector<std::string>;

v1::Schedule Parse(const std::string& text) {
  v1::Schedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule)) << text;
  return schedule;
}

struct ReadResult {
  Definition definition;
  absl::Status status;
  Strings wrong() const {
    Strings fields;
    for (const auto& [field, description] : FieldViolationsOf(status)) fields.push_back(field);
    return fields;
  }
};

ReadResult Read(const v1::Schedule& schedule) {
  ReadResult result;
  FieldViolations violations;
  ReadTiming(schedule, result.definition, violations);
  result.status = violations.ToStatus();
  return result;
}
ReadResult Read(const std::string& text) { return Read(Parse(text)); }

v1::Schedule Shown(const Definition& definition) {
  v1::Schedule shown;
  WriteTiming(definition.record, shown);
  return shown;
}

TEST(TimingCodec, EachWrongFieldIsNamed) {
  const std::vector<std::pair<std::string, Strings>> kCases = {
      {"", {"schedule.cron"}},
      {"cron: ''", {"schedule.cron"}},
      {"cron: '61 * * * *'", {"schedule.cron"}},
      {"cron: '* * * * *' times { seconds: 1 }", {"schedule.times"}},
      {"cron: '* * * * *' time_zone: 'Mars/Olympus'", {"schedule.time_zone"}},
      {"cron_fields { minute: '0' }", {"schedule.cron_fields.hour"}},
      {"cron_fields { hour: '25' minute: '61' day_of_month: '32' month: '13' day_of_week: '8' "
       "second: '60' }",
       {"schedule.cron_fields.second", "schedule.cron_fields.minute", "schedule.cron_fields.hour",
        "schedule.cron_fields.day_of_month", "schedule.cron_fields.month",
        "schedule.cron_fields.day_of_week"}},
      {"cron_fields { hour: '3 4' minute: '0' }", {"schedule.cron_fields.hour"}},
      {"cron_fields { hour: '@daily' minute: '0' }", {"schedule.cron_fields.hour"}},
      {"cron_fields { hour: '3' minute: '0\\n' }", {"schedule.cron_fields.minute"}},
      {"interval { }", {"schedule.interval.every"}},
      {"interval { every { nanos: 999999000 } }", {"schedule.interval.every"}},
      {"interval { every { seconds: 316224001 } }", {"schedule.interval.every"}},
      {"interval { every { seconds: 1 nanos: 1 } }", {"schedule.interval.every"}},
      {"interval { every { seconds: 1 } anchor_time { seconds: -99999999999999 } }",
       {"schedule.interval.anchor_time"}},
      {"times { seconds: 5 } times { seconds: -1 } times { seconds: 7258118400 } "
       "times { seconds: 4 nanos: 999999001 }",
       {"schedule.times[1]", "schedule.times[2]", "schedule.times[3]"}},
      {"cron: '* * * * *' start_time { seconds: -1 }", {"schedule.start_time"}},
      {"cron: '* * * * *' end_time { seconds: 0 }", {"schedule.end_time"}},
      {"cron: '* * * * *' end_time { seconds: 7258118401 }", {"schedule.end_time"}},
      {"cron: '* * * * *' start_time { seconds: 60 } end_time { seconds: 60 }",
       {"schedule.end_time"}},
      {"cron: '* * * * *' max_runs: -1", {"schedule.max_runs"}},
      {"cron: '* * * * *' max_runs: 100001", {"schedule.max_runs"}},
      {"cron: '* * * * *' exclusions: '* * 25 12 *' exclusions: 'no' exclusions: ''",
       {"schedule.exclusions[1]", "schedule.exclusions[2]"}},
      {"cron: '* * * * *' jitter { nanos: -1 }", {"schedule.jitter"}},
      {"cron: '* * * * *' jitter { seconds: 86400 nanos: 1 }", {"schedule.jitter"}},
      {"cron: '* * * * *' misfire_policy { threshold { nanos: 999999999 } max_catch_up: 1001 }",
       {"schedule.misfire_policy.threshold", "schedule.misfire_policy.max_catch_up"}},
      {"cron: '* * * * *' misfire_policy { threshold { seconds: 2592001 } max_catch_up: -1 }",
       {"schedule.misfire_policy.threshold", "schedule.misfire_policy.max_catch_up"}},
      {"cron: '* * * * *' misfire_policy { max_age { nanos: 999999999 } }",
       {"schedule.misfire_policy.max_age"}},
      {"cron: '* * * * *' misfire_policy { max_age { seconds: 31622401 } }",
       {"schedule.misfire_policy.max_age"}},
      {"interval { every { seconds: 60 } } dst_policy { gap: SHIFT overlap: LAST }",
       {"schedule.dst_policy.gap", "schedule.dst_policy.overlap"}},
      {"times { seconds: 60 } dst_policy { gap: SKIP }", {"schedule.dst_policy.gap"}},
  };
  for (const auto& [text, fields] : kCases) {
    const ReadResult result = Read(text);
    EXPECT_EQ(result.wrong(), fields) << text << "\n" << result.status;
  }
}

TEST(TimingCodec, ValuesThatNoEnumHasAreRefused) {
  v1::Schedule schedule = Parse("cron: '0 3 * * *'");
  schedule.mutable_dst_policy()->set_gap(static_cast<v1::DstPolicy::Gap::Policy>(5));
  schedule.mutable_dst_policy()->set_overlap(static_cast<v1::DstPolicy::Overlap::Policy>(-1));
  schedule.mutable_misfire_policy()->set_action(static_cast<v1::MisfirePolicy::Action>(4));
  schedule.set_overlap_policy(static_cast<v1::Schedule::OverlapPolicy>(5));
  EXPECT_EQ(Read(schedule).wrong(),
            (Strings{"schedule.dst_policy.gap", "schedule.dst_policy.overlap",
                     "schedule.misfire_policy.action", "schedule.overlap_policy"}));
}

TEST(TimingCodec, TooManyAreRefusedAsAWhole) {
  v1::Schedule schedule = Parse("");
  for (int i = 0; i < 1000; ++i) schedule.add_times()->set_seconds(i);
  EXPECT_TRUE(Read(schedule).status.ok());
  schedule.add_times()->set_seconds(-1);
  EXPECT_EQ(Read(schedule).wrong(), Strings{"schedule.times"});
  schedule = Parse("cron: '* * * * *'");
  for (int i = 0; i < 32; ++i) schedule.add_exclusions(absl::StrCat(i, " * * * *"));
  EXPECT_TRUE(Read(schedule).status.ok());
  schedule.add_exclusions("40 * * * *");
  EXPECT_EQ(Read(schedule).wrong(), Strings{"schedule.exclusions"});
}

TEST(TimingCodec, TimingEqualToTheDefaultsLeavesNoRecord) {
  const ReadResult plain = Read("cron: '0 3 * * *'");
  EXPECT_FALSE(plain.definition.record.has_timing());
  EXPECT_FALSE(plain.definition.record.has_misfire());
  EXPECT_EQ(plain.definition.record.time_zone(), "UTC");
  // As it is shown, too.
  const v1::Schedule shown = Shown(plain.definition);
  EXPECT_EQ(shown.dst_policy().gap(), v1::DstPolicy::Gap::AUTO);
  EXPECT_EQ(shown.dst_policy().overlap(), v1::DstPolicy::Overlap::AUTO);
  EXPECT_EQ(shown.misfire_policy().action(), v1::MisfirePolicy::FIRE_ALL);
  EXPECT_EQ(shown.misfire_policy().threshold().seconds(), 60);
  EXPECT_EQ(shown.misfire_policy().max_catch_up(), 100);
  EXPECT_FALSE(shown.misfire_policy().has_max_age());
  EXPECT_EQ(shown.overlap_policy(), v1::Schedule::ALLOW);
  const ReadResult again = Read(shown);
  EXPECT_EQ(again.definition.record.SerializeAsString(),
            plain.definition.record.SerializeAsString());
}

TEST(TimingCodec, GivenTimingIsShownAndReadAgain) {
  const Strings kCases = {
      R"(cron: "0 3 * * MON" time_zone: "Europe/Berlin" dst_policy { gap: SHIFT overlap: BOTH }
         start_time { seconds: 1000 nanos: 5000 } end_time { seconds: 4000000000 } max_runs: 100000
         exclusions: "* * 25 12 *" exclusions: "* * * * SAT" jitter { seconds: 86400 }
         misfire_policy { action: FIRE_LATEST threshold { seconds: 2592000 } max_catch_up: 1000
         max_age { seconds: 31622400 } }
         overlap_policy: CANCEL_PREVIOUS)",
      R"(cron_fields { hour: "3" minute: "0,30" } time_zone: "UTC" dst_policy { gap: SKIP
         overlap: LAST } misfire_policy { action: SKIP threshold { seconds: 1 } max_catch_up: 1 }
         overlap_policy: SKIP)",
      R"(interval { every { seconds: 90 nanos: 1000 } anchor_time { seconds: 0 } } time_zone: "UTC"
         misfire_policy { action: FIRE_ALL threshold { seconds: 60 } max_catch_up: 100
         max_age { seconds: 1 } } overlap_policy: BUFFER_ONE)",
      R"(times { seconds: 0 } times { seconds: 7 nanos: 1000 } time_zone: "Asia/Kolkata"
         misfire_policy { action: FIRE_ALL threshold { seconds: 60 } max_catch_up: 100 }
         overlap_policy: ALLOW)",
  };
  for (const std::string& text : kCases) {
    const v1::Schedule given = Parse(text);
    const ReadResult read = Read(given);
    ASSERT_TRUE(read.status.ok()) << read.status;
    const v1::Schedule shown = Shown(read.definition);
    google::protobuf::util::MessageDifferencer differencer;
    std::string difference;
    differencer.ReportDifferencesToString(&difference);
    EXPECT_TRUE(differencer.Compare(given, shown)) << difference;
    EXPECT_EQ(Read(shown).definition.record.SerializeAsString(),
              read.definition.record.SerializeAsString());
  }
}

TEST(TimingCodec, CronFieldsAreJoinedIntoTheTextThatFires) {
  const auto text = [](const std::string& fields) {
    return Read("cron_fields { " + fields + " }").definition.record.cron();
  };
  EXPECT_EQ(text("hour: '3' minute: '*'"), "* 3 * * *");
  EXPECT_EQ(text("hour: '3' minute: '5' month: 'JAN' day_of_month: '1-7' day_of_week: 'MON'"),
            "5 3 1-7 JAN MON");
  EXPECT_EQ(text("hour: '3' minute: '5' second: '*/10'"), "*/10 5 3 * * *");
  EXPECT_EQ(text("hour: '3' minute: '5' year: '2030-2040'"), "0 5 3 * * * 2030-2040");
}

TEST(TimingCodec, TimesAreKeptInOrder) {
  const ReadResult read = Read("times { seconds: 9 } times { seconds: 3 } times { seconds: 6 }");
  ASSERT_TRUE(read.status.ok());
  const auto& times = read.definition.record.timing().times_micros();
  EXPECT_EQ(std::vector<int64_t>(times.begin(), times.end()),
            (std::vector<int64_t>{3'000'000, 6'000'000, 9'000'000}));
  EXPECT_EQ(read.definition.timetable.FirstAtOrAfter(absl::InfinitePast())->instant,
            absl::FromUnixSeconds(3));
}

TEST(TimingCodec, TheTimetableIsThatOfAllFields) {
  const ReadResult read = Read(
      R"(cron: "30 2 * * *" time_zone: "Europe/Berlin" dst_policy { gap: SHIFT }
         start_time { seconds: 1806192000 } exclusions: "* * 27 3 *")");
  ASSERT_TRUE(read.status.ok()) << read.status;
  // 2027-03-27 is excluded, 2027-03-28T02:30 does not exist: an hour later on the clock.
  const auto first = read.definition.timetable.FirstAtOrAfter(absl::InfinitePast());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(absl::FormatTime(first->instant, absl::UTCTimeZone()), "2027-03-28T01:30:00+00:00");
}

TEST(TimingCodec, AMissingAnchorIsToldFromOneAt1970) {
  ReadResult given = Read("interval { every { seconds: 7 } anchor_time { seconds: 0 } }");
  ASSERT_TRUE(given.status.ok());
  EXPECT_FALSE(given.definition.anchor_missing);
  FillAnchor(given.definition, absl::FromUnixSeconds(5));
  EXPECT_EQ(given.definition.record.timing().interval().anchor_micros(), 0);

  ReadResult missing = Read("interval { every { seconds: 7 } }");
  ASSERT_TRUE(missing.status.ok());
  EXPECT_TRUE(missing.definition.anchor_missing);
  FillAnchor(missing.definition, absl::FromUnixSeconds(5));
  EXPECT_EQ(missing.definition.record.timing().interval().anchor_micros(), 5'000'000);
  EXPECT_EQ(missing.definition.timetable.FirstAfter(absl::FromUnixSeconds(5))->instant,
            absl::FromUnixSeconds(12));
  FillAnchor(missing.definition, absl::FromUnixSeconds(6));  // only once
  EXPECT_EQ(missing.definition.record.timing().interval().anchor_micros(), 5'000'000);
}

TEST(TimingCodec, APreviewNamesItsOwnFields) {
  v1::PreviewScheduleRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(interval { every { nanos: 1 } } schedule_start_time { seconds: 2 }
         schedule_end_time { seconds: 1 } exclusions: "x" dst_policy { gap: SKIP })",
      &request));
  Definition definition;
  FieldViolations violations;
  ReadTiming(request, "", definition, violations);
  Strings fields;
  for (const auto& [field, description] : FieldViolationsOf(violations.ToStatus()))
    fields.push_back(field);
  EXPECT_EQ(fields,
            (Strings{"interval.every", "dst_policy.gap", "schedule_end_time", "exclusions[0]"}));
}

TEST(Definition, DefinitionThatNeverFiresNamesTheFieldAtFault) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"cron: '0 0 30 2 *'", "schedule.cron"},
      {"cron_fields { hour: '0' minute: '0' day_of_month: '31' month: '4' }",
       "schedule.cron_fields"},
      {"cron: '0 3 * * *' start_time { seconds: 1 } end_time { seconds: 3600 }",
       "schedule.end_time"},
      {"times { seconds: 5 } start_time { seconds: 6 }", "schedule.start_time"},
      {"cron: '0 3 * * *' exclusions: '* 1-4 * * *'", "schedule.exclusions"},
      {"interval { every { seconds: 86400 } anchor_time { } } exclusions: '* 0 * * *'",
       "schedule.exclusions"},
  };
  for (const auto& [text, field] : kCases) {
    const ReadResult read = Read(text);
    ASSERT_TRUE(read.status.ok()) << text << read.status;
    const absl::Status status = CheckFires(read.definition);
    EXPECT_EQ(ErrorReason(status), "IMPOSSIBLE_EXPRESSION") << text;
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
    EXPECT_EQ(FieldViolationsOf(status)[0].first, field) << text;
  }
  EXPECT_TRUE(CheckFires(Read("cron: '0 3 * * *' exclusions: '* 4 * * *'").definition).ok());
}

TEST(Definition, DefinitionWhoseTimesHavePassedIsNamed) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"times { seconds: 5 } times { seconds: 1800000000 }", "schedule.times"},
      {"cron: '* * * * *' end_time { seconds: 1800000000 }", "schedule.end_time"},
  };
  for (const auto& [text, field] : kCases) {
    const ReadResult read = Read(text);
    EXPECT_TRUE(CheckFires(read.definition).ok());
    const absl::Status status = CheckFiresAfter(read.definition, now);
    EXPECT_EQ(ErrorReason(status), "INVALID_FIELD") << text;
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u);
    EXPECT_EQ(FieldViolationsOf(status)[0].first, field) << text;
    EXPECT_TRUE(CheckFiresAfter(read.definition, absl::FromUnixSeconds(0)).ok());
  }
}

}  // namespace timing_codec_test
}  // namespace escapement::master
