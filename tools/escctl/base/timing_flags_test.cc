#include "tools/escctl/base/timing_flags.h"

#include <google/protobuf/text_format.h>

#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/target_flags.h"

namespace escapement::escctl {
namespace timing_flags_test {

using Strings = std::vector<std::string>;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);  // 2027-01-15T08:00:00Z

struct Parsed {
  absl::Status status;
  v1::Schedule schedule;
  Strings fields;
};

// `former` is the content of a file.
Parsed Parse(const Strings& arguments, const std::string& former = "") {
  CLI::App app;
  TimingFlags flags;
  TargetFlags target;
  flags.Add(app);
  target.AddRetryKeep(app);
  std::vector<const char*> argv = {"escctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  app.parse(static_cast<int>(argv.size()), argv.data());
  Parsed parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(former, &parsed.schedule));
  parsed.status = flags.Apply(kNow, parsed.schedule, parsed.fields);
  if (parsed.status.ok()) parsed.status = target.Apply(parsed.schedule, parsed.fields);
  return parsed;
}

std::string Text(const v1::Schedule& schedule) { return schedule.ShortDebugString(); }

// The flag that is named for an error in `field`.
std::string Named(const Strings& arguments, const std::string& field) {
  CLI::App app;
  TimingFlags timing;
  TargetFlags target;
  Strings labels;
  timing.Add(app);
  target.Add(app);
  app.add_option("--label", labels);
  std::vector<const char*> argv = {"escctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  app.parse(static_cast<int>(argv.size()), argv.data());
  return FlagOfField(app, field);
}

TEST(FlagOfField, NamesTheFlagThatSetTheField) {
  EXPECT_EQ(Named({"--every", "1ms"}, "schedule.interval.every"), "--every");
  EXPECT_EQ(Named({"--every", "1ms"}, "schedule.interval"), "--every");
  EXPECT_EQ(Named({"--anchor", "now"}, "interval.anchor_time"), "--anchor");
  EXPECT_EQ(Named({"--at", "now"}, "schedule.times[2]"), "--at[2]");
  EXPECT_EQ(Named({"--cron", "x"}, "cron"), "--cron");
  EXPECT_EQ(Named({"--cron-field", "hour=x"}, "schedule.cron_fields.hour"), "--cron-field hour");
  EXPECT_EQ(Named({"--time-zone", "x"}, "schedule.time_zone"), "--time-zone");
  EXPECT_EQ(Named({"--max-attempts", "9"}, "schedule.retry_policy.max_attempts"), "--max-attempts");
  EXPECT_EQ(Named({"--label", "a.b=c"}, "schedule.labels[a.b]"), "--label[a.b]");
  EXPECT_EQ(Named({"--http", "x"}, "event.target.http.uri"), "--http");
  EXPECT_EQ(Named({"--kafka", "x"}, "schedule.target.kafka.brokers"), "--kafka brokers");
  EXPECT_EQ(Named({"--target", "{}"}, "schedule.target.http.uri"), "--target http.uri");
}

TEST(FlagOfField, LimitOfKeysIsNotTheOneOfThePolicy) {
  CLI::App app;
  int64_t own = 0, of_key = 0;
  app.add_option("--max-concurrent", own);
  app.add_option("--max-concurrent-per-key", of_key);
  const auto named = [&](const std::string& line) {
    app.parse(line);
    return FlagOfField(app, "policy.per_key.max_concurrent");
  };
  EXPECT_EQ(named("--max-concurrent 1 --max-concurrent-per-key 2"), "--max-concurrent-per-key");
  EXPECT_EQ(named("--max-concurrent 1"), "");
}

TEST(FlagOfField, FieldThatNoFlagSetKeepsItsName) {
  EXPECT_EQ(Named({}, "schedule.interval.every"), "");
  EXPECT_EQ(Named({"--cron", "x"}, "schedule.interval.every"), "");
  EXPECT_EQ(Named({"--cron", "x"}, "schedule"), "");
  EXPECT_EQ(Named({"--cron", "x"}, ""), "");
}

TEST(TimingFlags, AbsentTimingFlagChangesNothing) {
  const std::string former = R"(cron: "0 3 * * *" max_runs: 3 exclusions: "* 4 * * *")";
  const Parsed parsed = Parse({}, former);
  EXPECT_TRUE(parsed.status.ok());
  EXPECT_TRUE(parsed.fields.empty());
  EXPECT_EQ(Text(parsed.schedule), former);
}

TEST(TimingFlags, EachTimingFlagSetsItsFieldAndNamesIt) {
  const Parsed parsed = Parse({"--cron",
                               "0 3 * * *",
                               "--time-zone",
                               "Asia/Tokyo",
                               "--gap",
                               "fire-after",
                               "--fold",
                               "both",
                               "--start",
                               "2027-01-01T00:00:00Z",
                               "--end",
                               "+24h",
                               "--exclude",
                               "* * 25 12 *",
                               "--exclude",
                               "* * * * SAT",
                               "--max-runs",
                               "7",
                               "--jitter",
                               "1m30s",
                               "--misfire",
                               "fire-latest",
                               "--misfire-threshold",
                               "2m",
                               "--misfire-max-age",
                               "24h",
                               "--max-catch-up",
                               "9",
                               "--overlap",
                               "buffer-one",
                               "--retry-keep"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(
      Text(parsed.schedule),
      "cron: \"0 3 * * *\" time_zone: \"Asia/Tokyo\" retry_policy { keep: true } "
      "dst_policy { gap: FIRE_AFTER overlap: BOTH } start_time { seconds: 1798761600 } "
      "end_time { seconds: 1800086400 } max_runs: 7 exclusions: \"* * 25 12 *\" "
      "exclusions: \"* * * * SAT\" jitter { seconds: 90 } misfire_policy { action: FIRE_LATEST "
      "threshold { seconds: 120 } max_catch_up: 9 max_age { seconds: 86400 } } overlap_policy: "
      "BUFFER_ONE");
  EXPECT_EQ(parsed.fields,
            (Strings{"cron", "start_time", "end_time", "exclusions", "dst_policy.gap",
                     "dst_policy.overlap", "misfire_policy.action", "misfire_policy.threshold",
                     "misfire_policy.max_age", "misfire_policy.max_catch_up", "time_zone",
                     "max_runs", "jitter", "overlap_policy", "retry_policy.keep"}));
}

TEST(TimingFlags, EachKindOfTimetableReplacesTheOthers) {
  const Strings kFormer = {R"(cron: "0 3 * * *")", R"(cron_fields { hour: "3" minute: "0" })",
                           R"(interval { every { seconds: 5 } anchor_time { seconds: 1 } })",
                           "times { seconds: 1 } times { seconds: 2 }"};
  for (const std::string& former : kFormer) {
    EXPECT_EQ(Text(Parse({"--cron", "5 * * * *"}, former).schedule), "cron: \"5 * * * *\"");
    const Parsed times = Parse({"--at", "2027-01-15T08:00:07.5Z", "--at", "now"}, former);
    EXPECT_EQ(Text(times.schedule),
              "times { seconds: 1800000007 nanos: 500000000 } times { seconds: 1800000000 }");
    EXPECT_EQ(times.fields, Strings{"times"});
  }
  const Parsed interval = Parse({"--every", "90s", "--anchor", "-1h"}, kFormer[3]);
  EXPECT_EQ(Text(interval.schedule),
            "interval { every { seconds: 90 } anchor_time { seconds: 1799996400 } }");
  EXPECT_EQ(interval.fields, (Strings{"interval.every", "interval.anchor_time"}));
  const Parsed fields =
      Parse({"--cron-field", "hour=3", "--cron-field", "day-of-month=1-7"}, kFormer[3]);
  EXPECT_EQ(Text(fields.schedule), R"(cron_fields { day_of_month: "1-7" hour: "3" })");
  EXPECT_EQ(fields.fields, (Strings{"cron_fields.hour", "cron_fields.day_of_month"}));
}

TEST(TimingFlags, RepeatedFlagDoesNotTakeAFollowingName) {
  CLI::App app;
  TimingFlags flags;
  std::string id;
  app.add_option("id", id);
  flags.AddForPreview(app);
  const char* argv[] = {"escctl", "--at",      "now",       "--at",
                        "+1s",    "--exclude", "* 4 * * *", "nightly"};
  app.parse(static_cast<int>(std::size(argv)), argv);
  EXPECT_EQ(id, "nightly");
  v1::PreviewScheduleRequest request;
  ASSERT_TRUE(flags.Apply(kNow, request).ok());
  EXPECT_EQ(request.times_size(), 2);
  EXPECT_EQ(request.exclusions_size(), 1);
}

TEST(TimingFlags, EmptyTextClearsTimingField) {
  const Parsed parsed =
      Parse({"--start", "", "--end", "", "--exclude", "", "--jitter", "", "--max-runs", "0",
             "--no-retry-keep"},
            R"(start_time { seconds: 1 } end_time { seconds: 2 } exclusions: "* 4 * * *"
               jitter { seconds: 1 } max_runs: 3 retry_policy { keep: true })");
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(Text(parsed.schedule), "retry_policy { }");
  EXPECT_EQ(parsed.fields, (Strings{"start_time", "end_time", "exclusions", "max_runs", "jitter",
                                    "retry_policy.keep"}));
}

TEST(TimingFlags, TimingFlagsRefuseUnknownWords) {
  const std::vector<Strings> kCases = {
      {"--gap", "jump"},           {"--fold", "first-and-last"}, {"--misfire", "never"},
      {"--overlap", "queue"},      {"--every", "often"},         {"--jitter", "some"},
      {"--start", "tomorrow"},     {"--end", "+soon"},           {"--at", "2027-01-15"},
      {"--anchor", "+inf"},        {"--cron-field", "hours=3"},  {"--cron-field", "hour"},
      {"--misfire-threshold", "x"}};
  for (const Strings& arguments : kCases) {
    const Parsed parsed = Parse(arguments);
    EXPECT_FALSE(parsed.status.ok()) << arguments[0] << " " << arguments[1];
    EXPECT_EQ(parsed.status.message().substr(0, arguments[0].size()), arguments[0]);
  }
  EXPECT_FALSE(Parse({"--cron", "* * * * *", "--every", "5s"}).status.ok());
  EXPECT_FALSE(Parse({"--at", "now", "--cron-field", "hour=3"}).status.ok());
}

TEST(TimingFlags, PreviewHasOnlyItsOwnFlags) {
  CLI::App app;
  TimingFlags flags;
  flags.AddForPreview(app);
  const char* argv[] = {"escctl",     "--every",    "2h",        "--start",       "now",
                        "--end",      "+24h",       "--exclude", "* 4 * * *",     "--time-zone",
                        "Asia/Tokyo", "--calendar", "germany",   "--on-excluded", "skip"};
  app.parse(static_cast<int>(std::size(argv)), argv);
  v1::PreviewScheduleRequest request;
  ASSERT_TRUE(flags.Apply(kNow, request).ok());
  EXPECT_EQ(request.ShortDebugString(),
            "interval { every { seconds: 7200 } } time_zone: \"Asia/Tokyo\" schedule_start_time { "
            "seconds: 1800000000 } schedule_end_time { seconds: 1800086400 } exclusions: \"* 4 * * "
            "*\" calendar: \"germany\" on_excluded: SKIP");
  EXPECT_THROW(app.parse("--max-runs 3"), CLI::ParseError);
}

}  // namespace timing_flags_test
}  // namespace escapement::escctl
