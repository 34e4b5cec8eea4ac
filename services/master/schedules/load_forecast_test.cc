#include "services/master/schedules/load_forecast.h"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/cron/zone.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "escapement/storage/v1/records.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace load_forecast_test {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

constexpr int kMinutes = 72 * 60;

absl::Time At(absl::CivilMinute civil) { return absl::FromCivil(civil, absl::UTCTimeZone()); }

// 2026-03-28T00:00:00Z: the day before clocks change in Europe.
const absl::Time kStart = At(absl::CivilMinute(2026, 3, 28));

storage::v1::DefinitionRecord Definition(const std::string& id, const std::string& text) {
  storage::v1::DefinitionRecord definition;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &definition)) << text;
  definition.set_tenant("t");
  definition.set_schedule_id(id);
  definition.set_uid(std::string(StableHash128(id).bytes()));
  definition.set_version(1);
  return definition;
}

ForecastSource SourceFor(const storage::v1::DefinitionRecord& definition,
                         const std::string& group = "") {
  const auto timetable = TimetableOf(definition);
  EXPECT_TRUE(timetable.ok()) << timetable.status() << definition.ShortDebugString();
  return {.schedule_id = definition.schedule_id(),
          .group = group,
          .source = SourceOf(definition),
          .timetable = *timetable,
          .from = FromMicros(definition.create_time_micros())};
}

void Add(LoadForecast& forecast, ForecastSource source) {
  forecast.Begin(std::move(source));
  while (!forecast.Step()) {
  }
}

std::vector<int64_t> Forecast(const storage::v1::DefinitionRecord& definition,
                              absl::Time start = kStart, int minutes = kMinutes) {
  LoadForecast forecast(start, minutes, /*grouped=*/false);
  Add(forecast, SourceFor(definition));
  const auto answer = forecast.Answer("t", std::nullopt);
  return {answer.events_per_minute().begin(), answer.events_per_minute().end()};
}

// Every event of every occurrence, one by one.
std::vector<int64_t> OneByOne(const storage::v1::DefinitionRecord& definition,
                              absl::Time start = kStart, int minutes = kMinutes) {
  std::vector<int64_t> counts(static_cast<size_t>(minutes));
  const OccurrenceSource source = SourceOf(definition);
  const cron::Timetable timetable = TimetableOf(definition).value();
  const storage::v1::WindowRecord& window = definition.throttle().window();
  const absl::Time from =
      std::max(start - source.jitter - absl::Microseconds(window.duration_micros()),
               FromMicros(definition.create_time_micros()));
  for (const cron::Occurrence& o :
       timetable.Enumerate(from, start + absl::Minutes(minutes), 1'000'000)) {
    const absl::Time launch = ToEmitted(source, timetable, o).launch_time;
    for (uint64_t i = 0; i < source.event_count; ++i) {
      absl::Time at = launch;
      if (window.even()) {
        const absl::int128 micros =
            (absl::int128(window.duration_micros()) * i + source.event_count - 1) /
            source.event_count;
        at += absl::Microseconds(static_cast<int64_t>(micros));
      }
      const int64_t minute = absl::ToInt64Minutes(absl::Floor(at - start, absl::Minutes(1)));
      if (minute >= 0 && minute < minutes) ++counts[static_cast<size_t>(minute)];
    }
  }
  return counts;
}

TEST(LoadForecast, CountsEachEventInItsMinute) {
  const std::vector<std::string> definitions = {
      "cron: '*/7 3,15 * * *' time_zone: 'Asia/Kolkata' event_count: 3",
      "cron: '*/10 * * * * *' time_zone: 'Europe/Berlin'",
      "cron: '15,30 0-59/2 * * * *' time_zone: 'Europe/Berlin' timing { gap: GAP_KIND_FIRE_AFTER "
      "fold: FOLD_KIND_BOTH }",
      "cron: '0,20 30 2 * * *' time_zone: 'Europe/Berlin' timing { gap: GAP_KIND_SHIFT }",
      "cron: '59 59 2 * * *' time_zone: 'Europe/Berlin'",
      // Half an hour of change, on another day.
      "cron: '* * * * * *' time_zone: 'Australia/Lord_Howe'",
      "cron: '30 12 28 3 *' time_zone: 'UTC' event_count: 7", "cron: '0 9 L-1,L-2 * *'",
      // Some seconds of some minutes are excluded, and a day.
      "cron: '* * * * * *' timing { exclusions: '5-20 */3 4,5 * * *' exclusions: '* * 29 3 *' }",
      "cron: '* * * * *' timing { start_micros: 1774699215500000 end_micros: 1774785630000001 }",
      "timing { interval { every_micros: 7000000 anchor_micros: 1234567 } } event_count: 2",
      "timing { interval { every_micros: 90000001 } }",
      "timing { interval { every_micros: 864000000000 anchor_micros: 1774700000000000 } }",
      "timing { interval { every_micros: 1500000 } exclusions: '* 1-5 * * *' } "
      "time_zone: 'Asia/Kathmandu'",
      "timing { times_micros: 1774656000000000 times_micros: 1774656059999999 "
      "times_micros: 1774656060000000 times_micros: 1774915200000000 } event_count: 4",
      // Jitter takes occurrences of the hours before into the forecast.
      "cron: '*/5 * * * *' timing { jitter_micros: 3600000000 } event_count: 2",
      "timing { interval { every_micros: 61000000 } jitter_micros: 86400000000 }",
      // Even windows: of many events, of few, of one, with jitter, over days.
      "cron: '0 */2 * * *' event_count: 1000 throttle { window { duration_micros: 5400000000 even: "
      "true } }",
      "cron: '0 */2 * * *' event_count: 7 throttle { window { duration_micros: 3600000000 even: "
      "true } }",
      "cron: '30 * * * *' throttle { window { duration_micros: 3600000000 even: true } }",
      "cron: '0 0 * * *' event_count: 999 throttle { window { duration_micros: 172800000000 even: "
      "true } } timing { jitter_micros: 600000000 }",
      // A window that is not even begins at once.
      "cron: '0 0 * * *' event_count: 9 throttle { policy_id: 'p' window { duration_micros: "
      "7200000000 } }",
      // Made in the middle of a minute.
      "cron: '* * * * * *' create_time_micros: 1774656030000000"};
  for (size_t i = 0; i < definitions.size(); ++i) {
    const auto definition = Definition(absl::StrCat("s", i), definitions[i]);
    const std::vector<int64_t> expected = OneByOne(definition);
    EXPECT_EQ(Forecast(definition), expected) << definitions[i];
    EXPECT_GT(std::count_if(expected.begin(), expected.end(), [](int64_t n) { return n > 0; }), 0)
        << definitions[i];
  }
}

TEST(LoadForecast, CountsRandomCronExpressionsAroundChangesOfClocks) {
  const std::pair<const char*, absl::Time> changes[] = {
      {"Europe/Berlin", At(absl::CivilMinute(2026, 3, 29, 1, 0))},
      {"Europe/Berlin", At(absl::CivilMinute(2026, 10, 25, 1, 0))},
      {"America/New_York", At(absl::CivilMinute(2026, 3, 8, 7, 0))},
      {"America/New_York", At(absl::CivilMinute(2026, 11, 1, 6, 0))},
      {"Australia/Lord_Howe", At(absl::CivilMinute(2026, 4, 4, 15, 0))},
      {"Australia/Lord_Howe", At(absl::CivilMinute(2026, 10, 3, 15, 30))},
      {"Africa/Casablanca", At(absl::CivilMinute(2026, 2, 15, 2, 0))},
      {"Pacific/Apia", At(absl::CivilMinute(2011, 12, 30, 10, 0))},    // skips a day
      {"Africa/Monrovia", At(absl::CivilMinute(1972, 1, 7, 0, 44))}};  // offset with seconds
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const std::vector<std::string> seconds = {"0", "*/15", "30", "59", "7,8,9", "*"};
  const std::vector<std::string> minutes = {"*", "*/5", "0", "30", "17-43", "0,59"};
  const std::vector<std::string> hours = {"*", "0-4", "2", "1-3", "*/6", "23"};
  const std::vector<std::string> days = {"* * *", "* * 0,6", "1-15 * *", "L * *"};
  const auto any = [&](const std::vector<std::string>& of) {
    return of[static_cast<size_t>(pick(static_cast<int>(of.size())))];
  };
  for (int i = 0; i < 400; ++i) {
    const auto& [zone, change] = changes[static_cast<size_t>(pick(std::size(changes)))];
    storage::v1::DefinitionRecord definition = Definition(absl::StrCat("r", i), "");
    definition.set_cron(
        absl::StrCat(any(seconds), " ", any(minutes), " ", any(hours), " ", any(days)));
    definition.set_time_zone(zone);
    definition.mutable_timing()->set_gap(static_cast<storage::v1::GapKind>(pick(4)));
    definition.mutable_timing()->set_fold(static_cast<storage::v1::FoldKind>(pick(4)));
    if (pick(3) == 0)
      definition.mutable_timing()->add_exclusions(
          absl::StrCat(any(seconds), " ", any(minutes), " ", any(hours), " * * *"));
    const absl::Time start =
        absl::FromUnixSeconds((absl::ToUnixSeconds(change) / 60 - pick(12 * 60)) * 60);
    ASSERT_EQ(Forecast(definition, start, 24 * 60), OneByOne(definition, start, 24 * 60))
        << definition.ShortDebugString() << " from " << start;
  }
}

TEST(LoadForecast, EverySecondCostsLikeEveryMinute) {
  for (const char* text :
       {"cron: '* * * * * *'", "timing { interval { every_micros: 1000000 } }"}) {
    LoadForecast forecast(kStart, kMinutes, /*grouped=*/false);
    Add(forecast, SourceFor(Definition("s", text)));
    EXPECT_EQ(forecast.Answer("t", std::nullopt).event_count(), 72 * 3600);
    EXPECT_LT(forecast.work(), kMinutes);
  }
}

TEST(LoadForecast, OneStepHasABound) {
  const char* const definitions[] = {
      "cron: '* * * * * *' timing { jitter_micros: 86400000000 }",
      "timing { interval { every_micros: 1000000 } exclusions: '1-59 * * * * *' }",
      "cron: '* * * * * *' event_count: 100000 throttle { window { duration_micros: 31536000000000 "
      "even: true } } create_time_micros: 1774655900000000"};
  for (const char* text : definitions) {
    LoadForecast forecast(kStart, kMinutes, /*grouped=*/false);
    forecast.Begin(SourceFor(Definition("s", text)));
    int steps = 0;
    uint64_t before = 0;
    for (bool done = false; !done && steps < 100; ++steps) {
      done = forecast.Step();
      EXPECT_LT(forecast.work() - before, 2 * kForecastTurnWork) << text;
      before = forecast.work();
    }
    EXPECT_GT(steps, 30) << text;
  }
}

std::vector<std::string> GroupsOf(const v1::ForecastLoadResponse& answer) {
  std::vector<std::string> groups;
  for (const auto& group : answer.groups()) {
    int64_t sum = 0;
    for (const int64_t events : group.events_per_minute()) sum += events;
    EXPECT_EQ(sum, group.event_count()) << group.key();
    groups.push_back(
        absl::StrCat(group.key(), ":", group.event_count(), "/", group.schedule_count()));
  }
  return groups;
}

TEST(LoadForecast, GroupsStandByTheirEvents) {
  LoadForecast forecast(kStart, 60, /*grouped=*/true);
  Add(forecast, SourceFor(Definition("a", "cron: '5 * * * *' event_count: 10"), "small"));
  Add(forecast, SourceFor(Definition("b", "cron: '5 * * * *' event_count: 70"), "large"));
  Add(forecast, SourceFor(Definition("c", "cron: '*/2 * * * *'"), ""));
  Add(forecast, SourceFor(Definition("d", "cron: '1,5 * * * *' event_count: 2"), "small"));
  Add(forecast, SourceFor(Definition("e", "cron: '0 0 1 1 *'"), "never"));
  const auto answer = forecast.Answer("t", std::nullopt);
  EXPECT_THAT(GroupsOf(answer), ElementsAre("large:70/1", ":30/1", "small:14/2"));
  EXPECT_FALSE(answer.other());
  EXPECT_EQ(answer.groups(2).events_per_minute(1), 2);
  EXPECT_EQ(answer.groups(2).events_per_minute(5), 12);
  EXPECT_EQ(answer.event_count(), 114);
  EXPECT_EQ(answer.schedule_count(), 4);
}

TEST(LoadForecast, FurtherGroupsAreCountedTogether) {
  LoadForecast forecast(kStart, 60, /*grouped=*/true);
  for (int i = 0; i < 25; ++i) {
    Add(forecast, SourceFor(Definition(absl::StrCat("s", i),
                                       absl::StrCat("cron: '7 * * * *' event_count: ", 100 + i)),
                            absl::StrCat("g", i)));
  }
  const auto answer = forecast.Answer("t", std::nullopt);
  const std::vector<std::string> groups = GroupsOf(answer);
  ASSERT_EQ(groups.size(), kForecastGroupsMax);
  EXPECT_TRUE(answer.other());
  EXPECT_EQ(groups.front(), "g24:124/1");
  EXPECT_EQ(groups[18], "g6:106/1");
  EXPECT_EQ(groups.back(), absl::StrCat(":", 100 + 101 + 102 + 103 + 104 + 105, "/6"));
}

TEST(LoadForecast, ManyGroupsKeepTheirMemoryBounded) {
  // Each group has every minute, and so all counts: more than kForecastGroupBytesMax together.
  const int groups = static_cast<int>(2 * kForecastGroupBytesMax / (kMinutes * sizeof(int64_t)));
  LoadForecast forecast(kStart, kMinutes, /*grouped=*/true);
  int64_t events = 0;
  for (int i = 0; i < groups; ++i) {
    const int n = i == 5 ? 9 : 1;
    Add(forecast, SourceFor(Definition(absl::StrCat("s", i),
                                       absl::StrCat("cron: '* * * * *' event_count: ", n)),
                            absl::StrCat("g", i)));
    events += int64_t{n} * kMinutes;
  }
  // Its group was dropped, or is complete.
  Add(forecast, SourceFor(Definition("again", "cron: '* * * * *' event_count: 2"), "g5"));
  events += 2 * kMinutes;
  const auto answer = forecast.Answer("t", std::nullopt);
  const std::vector<std::string> shown = GroupsOf(answer);
  ASSERT_EQ(shown.size(), kForecastGroupsMax);
  EXPECT_TRUE(answer.other());
  EXPECT_EQ(shown.front(), absl::StrCat("g5:", 11 * kMinutes, "/2"));
  int64_t sum = 0, schedules = 0;
  for (const auto& group : answer.groups()) {
    sum += group.event_count();
    schedules += group.schedule_count();
  }
  EXPECT_EQ(sum, events);
  EXPECT_EQ(sum, answer.event_count());
  EXPECT_EQ(schedules, answer.schedule_count());
}

TEST(LoadForecast, BusyMinutesNameTheirLargestSchedules) {
  LoadForecast forecast(kStart, 60, /*grouped=*/false);
  for (int i = 1; i <= 7; ++i) {
    Add(forecast, SourceFor(Definition(absl::StrCat("s", i),
                                       absl::StrCat("cron: '3 * * * *' event_count: ", i))));
  }
  // Alone in its minute: not a collision.
  Add(forecast, SourceFor(Definition("alone", "cron: '9 * * * *' event_count: 1000")));
  Add(forecast, SourceFor(Definition("x", "cron: '20,40 * * * *' event_count: 6")));
  Add(forecast, SourceFor(Definition("y", "cron: '20 * * * *' event_count: 90")));
  const auto answer = forecast.Answer("t", std::nullopt);
  ASSERT_EQ(answer.busy_minutes_size(), 2);
  EXPECT_EQ(answer.busy_minutes(0).time().seconds(), absl::ToUnixSeconds(kStart) + 20 * 60);
  EXPECT_EQ(answer.busy_minutes(0).event_count(), 96);
  const auto& second = answer.busy_minutes(1);
  EXPECT_EQ(second.time().seconds(), absl::ToUnixSeconds(kStart) + 3 * 60);
  EXPECT_EQ(second.event_count(), 1 + 2 + 3 + 4 + 5 + 6 + 7);
  EXPECT_EQ(second.schedule_count(), 7);
  std::vector<std::string> sources;
  for (const auto& source : second.sources())
    sources.push_back(absl::StrCat(source.schedule(), ":", source.event_count()));
  EXPECT_THAT(sources, ElementsAre("tenants/t/schedules/s7:7", "tenants/t/schedules/s6:6",
                                   "tenants/t/schedules/s5:5", "tenants/t/schedules/s4:4",
                                   "tenants/t/schedules/s3:3"));
}

std::vector<std::string> QuietOf(const v1::ForecastLoadResponse& answer) {
  std::vector<std::string> minutes;
  for (const auto& minute : answer.quiet_minutes()) {
    minutes.push_back(absl::StrCat((minute.time().seconds() - absl::ToUnixSeconds(kStart)) / 60,
                                   ":", minute.event_count()));
  }
  return minutes;
}

TEST(LoadForecast, QuietMinutesAreTheNearestOfTheFewest) {
  LoadForecast forecast(kStart, 180, /*grouped=*/false);
  Add(forecast, SourceFor(Definition("a", "cron: '0 2 * * *' event_count: 41000")));
  Add(forecast, SourceFor(Definition("b", "cron: '* * * * *' event_count: 900")));
  Add(forecast,
      SourceFor(Definition(
          "c", "cron: '0-59 * * * *' timing { exclusions: '7,55 2 * * *' } event_count: 5")));
  EXPECT_THAT(QuietOf(forecast.Answer("t", kStart + absl::Minutes(120) + absl::Seconds(59))),
              ElementsAre("120:41905", "127:900", "119:905", "121:905", "118:905", "122:905"));
  // Within the forecast only; and no minute has fewer events than this one.
  EXPECT_THAT(QuietOf(forecast.Answer("t", kStart + absl::Minutes(127))), ElementsAre("127:900"));
  EXPECT_THAT(QuietOf(forecast.Answer("t", kStart + absl::Minutes(179))),
              ElementsAre("179:905", "175:900"));
}

v1::ForecastLoadRequest Request(const std::string& text) {
  v1::ForecastLoadRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  request.set_parent("tenants/t");
  return request;
}

TEST(LoadForecast, RequestIsRoundedAndHasDefaults) {
  const absl::Time now = kStart + absl::Seconds(59);
  const auto query = ReadForecast(Request(""), now);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->start, kStart);
  EXPECT_EQ(query->minutes, 24 * 60);
  EXPECT_FALSE(query->near.has_value());
  const auto later = ReadForecast(
      Request("start_time { seconds: 1774656119 nanos: 5 } duration { seconds: 259200 } "
              "near_time { seconds: 1774915259 nanos: 999999999 } group_by: 'labels.app.io/team'"),
      now);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->start, kStart + absl::Minutes(1));
  EXPECT_EQ(later->minutes, kMinutes);
}

TEST(LoadForecast, RequestIsRefusedByItsFields) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"start_time { seconds: 1774655999 }", {"start_time"}},  // the minute before
      {"start_time { nanos: -1 }", {"start_time"}},
      {"start_time { seconds: 1806278460 }", {"start_time"}},  // 366 days and a minute
      {"duration { seconds: 59 }", {"duration"}},
      {"duration { seconds: 90 }", {"duration"}},
      {"duration { seconds: 259260 }", {"duration"}},
      {"duration { seconds: 60 nanos: -1 }", {"duration"}},
      {"near_time { seconds: 1774655999 }", {"near_time"}},
      {"near_time { seconds: 1774742400 }", {"near_time"}},  // the end
      {"group_by: 'schedule'", {"group_by"}},
      {"group_by: 'labels.'", {"group_by"}},
      {"filter: 'nothing = 1'", {"filter"}},
      {"filter: 'x' group_by: 'y' duration { }", {"filter", "group_by", "duration"}}};
  for (const auto& [text, fields] : cases) {
    const auto query = ReadForecast(Request(text), kStart + absl::Seconds(30));
    std::vector<std::string> wrong;
    for (const auto& [field, description] : FieldViolationsOf(query.status()))
      wrong.push_back(field);
    EXPECT_THAT(wrong, UnorderedElementsAreArray(fields)) << text;
  }
}

}  // namespace load_forecast_test
}  // namespace escapement::master
