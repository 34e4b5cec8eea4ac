// escctl against a real platform: previews, the times of schedules, and what becomes of
// occurrences.

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace escctl_time_test {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST_F(EscctlTest, PreviewsWithDataOnStdoutAndWordsOnStderr) {
  const std::vector<std::string> night = {"schedule",    "preview",
                                          "--cron",      "30 2 * * *",
                                          "--time-zone", "Europe/Berlin",
                                          "--from",      "2027-03-27T00:00:00Z",
                                          "-n",          "3"};
  const Said table = Run(night);
  EXPECT_EQ(table.exit_code, 0) << table.words;
  EXPECT_THAT(table.data, StartsWith("TIME "));
  EXPECT_EQ(std::count(table.data.begin(), table.data.end(), '\n'), 4);
  EXPECT_THAT(table.data, HasSubstr("2027-03-28T03:00:00+02:00  GAP_FIRED_AFTER"));
  EXPECT_THAT(table.data, Not(HasSubstr("every day")));
  EXPECT_THAT(table.words, StartsWith("At 02:30, every day (tzdata 20"));
  EXPECT_THAT(table.words, HasSubstr("warning: 02:30 on 2027-03-28 does not exist"));

  const auto json = Json(night);
  EXPECT_THAT(KeysOf(json), UnorderedElementsAre("description", "occurrences", "children",
                                                 "warnings", "tzVersion"));
  EXPECT_EQ(json["description"], "At 02:30, every day");
  ASSERT_EQ(json["occurrences"].size(), 3u);
  EXPECT_EQ(json["occurrences"][0],
            nlohmann::json({{"time", "2027-03-27T01:30:00Z"},
                            {"localTime", "2027-03-27T02:30:00+01:00"},
                            {"occurrence", "20270327T023000-0-Europe~Berlin"}}));
  EXPECT_EQ(json["occurrences"][1]["time"], "2027-03-28T01:00:00Z");
  EXPECT_EQ(json["occurrences"][1]["localTime"], "2027-03-28T03:00:00+02:00");
  EXPECT_EQ(json["occurrences"][1]["note"], "GAP_FIRED_AFTER");
  EXPECT_EQ(
      json["children"],
      nlohmann::json::array(
          {{{"launchExpression", "H:2"}, {"class", "HOUR"}, {"hour", "2"}, {"minute", "30"}}}));

  // The other ways to give times.
  const auto fields =
      Json({"schedule", "preview", "--cron-field", "hour=3,6,9", "--cron-field", "minute=0",
            "--exclude", "* 6 * * *", "-n", "2", "--from", "2027-01-01T00:00:00Z"});
  EXPECT_EQ(fields["occurrences"][0]["time"], "2027-01-01T03:00:00Z");
  EXPECT_EQ(fields["occurrences"][1]["time"], "2027-01-01T09:00:00Z");
  const auto every = Json({"schedule", "preview", "--every", "90s", "--anchor",
                           "2027-01-01T00:00:07Z", "-n", "1", "--from", "2027-01-01T00:01:37Z"});
  EXPECT_EQ(every["occurrences"][0]["time"], "2027-01-01T00:03:07Z");
  EXPECT_EQ(every["children"][0]["class"], "INSTANT");
  const auto times = Json({"schedule", "preview", "--at", "+2h", "--at", "+1h"});
  EXPECT_EQ(times["occurrences"].size(), 2u);

  const Said impossible = Run({"schedule", "preview", "--cron", "0 0 30 2 *"});
  EXPECT_EQ(impossible.exit_code, 1);
  EXPECT_EQ(impossible.data, "");
  EXPECT_THAT(impossible.words, HasSubstr(": --cron: "));
  EXPECT_EQ(Run({"schedule", "preview"}).exit_code, 1);
  EXPECT_EQ(Run({"schedule", "preview", "--cron", "@daily", "--every", "1m"}).exit_code, 2);
  EXPECT_EQ(Run({"schedule", "preview", "--cron", "@daily", "--from", "soon"}).exit_code, 2);
  EXPECT_EQ(Run({"schedule", "preview", "--cron", "@daily", "--gap", "WIDE"}).exit_code, 2);
}

TEST_F(EscctlTest, ForecastsTheLoadOfTheHoursToCome) {
  const std::string uri = receiver_->origin() + "/hook";
  // In an hour of tomorrow, so that nothing of it is past.
  const absl::Time hour =
      absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) / 3600 * 3600) + absl::Hours(24);
  const auto text = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%dT%H:%M", time, absl::UTCTimeZone());
  };
  Json({"schedule", "create", "nightly", "--cron", "20 * * * *", "-n", "41000", "--label",
        "team=red", "--http", uri});
  Json({"schedule", "create", "small", "--cron", "20,27 * * * *", "-n", "900", "--http", uri});
  const std::vector<std::string> command = {
      "forecast",   "--from", text(hour) + ":00Z",
      "--for",      "1h",     "--by",
      "label=team", "--near", text(hour + absl::Minutes(20)) + ":00Z"};
  const Said table = Run(command);
  EXPECT_EQ(table.exit_code, 0) << table.words;
  EXPECT_THAT(table.data, StartsWith("HOUR "));
  EXPECT_THAT(table.data, ContainsRegex(absl::StrCat(text(hour), "Z +42800 +41900 +.*##########")));
  EXPECT_THAT(table.data, ContainsRegex("\nred +41000 +1\n"));
  EXPECT_THAT(table.data, ContainsRegex("\n\\(none\\) +1800 +1\n"));
  EXPECT_THAT(table.data, ContainsRegex(" 41900 +2 +nightly 41000, small 900\n"));
  EXPECT_THAT(table.data,
              ContainsRegex(absl::StrCat("\n", text(hour + absl::Minutes(19)), "Z +0 ")));
  EXPECT_THAT(table.words, StartsWith("42800 events of 2 schedules"));

  const auto json = Json(command);
  EXPECT_EQ(json["eventsPerMinute"].size(), 60u);
  EXPECT_EQ(json["eventsPerMinute"][20], "41900");
  EXPECT_EQ(Json({"forecast", "--filter", "name = small"})["scheduleCount"], "1");

  const Said refused = Run({"forecast", "--for", "100h", "--by", "size"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("--for: "));
  EXPECT_THAT(refused.words, HasSubstr("--by: "));
  EXPECT_EQ(Run({"forecast", "--near", "soon"}).exit_code, 2);
}

TEST_F(EscctlTest, CalendarsLeaveDaysOutAndSayWhatMoves) {
  const std::string file = folder_ + "/holidays.ics";
  std::ofstream(file) << "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20991225\r\n"
                         "DTEND;VALUE=DATE:20991227\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
  auto made = Json({"calendar", "create", "holidays", "--ics", file, "--rule", "* * SAT,SUN",
                    "--date", "2099-10-03", "--display-name", "Days off"});
  EXPECT_EQ(made["dates"], nlohmann::json({"2099-10-03", "2099-12-25", "2099-12-26"}));
  EXPECT_EQ(made["rules"], nlohmann::json({"* * SAT,SUN"}));
  Json({"calendar", "create", "shop", "--add", "holidays", "--except-date", "2099-12-26"});
  EXPECT_THAT(Run({"calendar", "list"}).data, ContainsRegex("calendars/shop +- +- +holidays +1 "));

  made = Json({"schedule", "create", "payday", "--cron", "0 9 L * *", "--calendar", "shop",
               "--on-excluded", "previous", "--http", receiver_->origin() + "/pay"});
  EXPECT_EQ(made["calendar"], "tenants/default/calendars/shop");
  EXPECT_EQ(made["onExcluded"], "PREVIOUS");
  const Said wrong = Run({"schedule", "create", "other", "--every", "1h", "--calendar", "shop",
                          "--on-excluded", "next", "--http", receiver_->origin() + "/pay"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.words, HasSubstr("--on-excluded: "));

  const absl::Time in_two_days = absl::Now() + absl::Hours(48);
  const std::string day = absl::FormatTime("%Y-%m-%d", in_two_days, absl::UTCTimeZone());
  Json({"schedule", "create", "daily", "--cron", "0 9 * * *", "--calendar", "shop", "--http",
        receiver_->origin() + "/pay"});
  const std::vector<std::string> update = {
      "calendar", "update", "holidays", "--rule",
      absl::FormatTime("%d %m *", in_two_days, absl::UTCTimeZone())};
  std::vector<std::string> look = update;
  look.push_back("--validate-only");
  const Said seen = Run(look);
  EXPECT_EQ(seen.exit_code, 0) << seen.words;
  EXPECT_THAT(seen.words, HasSubstr("2 schedules get other days"));
  EXPECT_THAT(seen.words, HasSubstr("nothing was changed"));
  EXPECT_THAT(seen.data, HasSubstr("\nSCHEDULE "));
  EXPECT_EQ(Json({"calendar", "get", "holidays"})["version"], "1");
  EXPECT_EQ(Json(update)["scheduleCount"], "2");
  const auto shown = Json({"calendar", "get", "holidays"});
  EXPECT_EQ(shown["nextDays"][0], day);
  EXPECT_EQ(shown["scheduleCount"], "2");
  EXPECT_THAT(Run({"calendar", "get", "shop"}).data, HasSubstr("\nschedules: 2"));

  const Said refused = Run({"calendar", "delete", "shop"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("still names"));
  EXPECT_EQ(Run({"calendar", "update", "shop"}).exit_code, 2);
  EXPECT_EQ(Run({"calendar", "create", "--ics", "/nowhere"}).exit_code, 2);
  const Said invalid = Run({"calendar", "create", "bad", "--date", "2027-02-29"});
  EXPECT_THAT(invalid.words, HasSubstr("--date[0]: "));
  for (const char* schedule : {"payday", "daily"}) Run({"schedule", "delete", schedule});
  EXPECT_EQ(Run({"calendar", "delete", "shop"}).exit_code, 0);
}

TEST_F(EscctlTest, ShowsTheTimesAndPoliciesOfASchedule) {
  const std::string uri = receiver_->origin() + "/hook";
  auto made = Json({"schedule",
                    "create",
                    "pulse",
                    "--every",
                    "90s",
                    "--anchor",
                    "2026-01-01T00:00:07Z",
                    "--time-zone",
                    "Asia/Kolkata",
                    "--exclude",
                    "* 13 * * *",
                    "--exclude",
                    "* * 25 12 *",
                    "--jitter",
                    "30s",
                    "--misfire",
                    "fire-latest",
                    "--misfire-threshold",
                    "5s",
                    "--max-catch-up",
                    "7",
                    "--overlap",
                    "buffer-one",
                    "--max-runs",
                    "1000",
                    "--start",
                    "+1h",
                    "--end",
                    "+240h",
                    "--http",
                    uri});
  EXPECT_EQ(made["interval"],
            nlohmann::json({{"every", "90s"}, {"anchorTime", "2026-01-01T00:00:07Z"}}));
  EXPECT_THAT(made["exclusions"], ElementsAre("* 13 * * *", "* * 25 12 *"));
  EXPECT_EQ(made["jitter"], "30s");
  EXPECT_EQ(made["misfirePolicy"],
            nlohmann::json({{"action", "FIRE_LATEST"}, {"threshold", "5s"}, {"maxCatchUp", 7}}));
  EXPECT_EQ(made["overlapPolicy"], "BUFFER_ONE");
  EXPECT_EQ(made["maxRuns"], "1000");
  EXPECT_TRUE(made.contains("startTime") && made.contains("endTime") && made.contains("nextTime"));
  EXPECT_FALSE(made.contains("cron"));
  // Only create and update return warnings.
  made.erase("warnings");
  EXPECT_EQ(Json({"schedule", "get", "pulse"}), made);

  // The id stands after the last time flag, which takes one value only.
  const auto once = Json({"schedule", "create", "--http", uri, "--at", "2198-01-02T03:04:05Z",
                          "--at", "2197-01-02T03:04:05.5Z", "--at", "+1h", "once"});
  EXPECT_EQ(once["name"], "tenants/default/schedules/once");
  EXPECT_EQ(once["times"].size(), 3u);
  EXPECT_EQ(once["nextTime"], once["times"][0]) << "sorted";
  EXPECT_EQ(once["times"][1], "2197-01-02T03:04:05.500Z");

  EXPECT_THAT(Json({"schedule", "list"}), UnorderedElementsAre(made, once));
  const Said list = Run({"schedule", "list"});
  EXPECT_THAT(list.data, HasSubstr("every 1m30s"));
  EXPECT_THAT(list.data, HasSubstr("3 times"));
  EXPECT_EQ(
      Run({"schedule", "create", "--every", "90s", "--overlap", "maybe", "--http", uri}).exit_code,
      2);
}

TEST_F(EscctlTest, ChangesTheWayOfSayingWhen) {
  const std::string uri = receiver_->origin() + "/hook";
  Json({"schedule", "create", "night", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin",
        "--gap", "skip", "--http", uri});
  auto now = Json({"schedule", "update", "night", "--every", "6h"});
  EXPECT_EQ(now["interval"]["every"], "21600s");
  EXPECT_FALSE(now.contains("cron"));
  EXPECT_FALSE(now.contains("dstPolicy"));
  EXPECT_EQ(now["version"], "2");
  now = Json({"schedule", "update", "night", "--anchor", "2026-01-01T00:00:00Z"});
  EXPECT_EQ(now["interval"],
            nlohmann::json({{"every", "21600s"}, {"anchorTime", "2026-01-01T00:00:00Z"}}));
  now = Json({"schedule", "update", "night", "--at", "+1h", "--at", "+2h"});
  EXPECT_EQ(now["times"].size(), 2u);
  EXPECT_FALSE(now.contains("interval"));
  now = Json({"schedule", "update", "night", "--cron-field", "hour=4", "--cron-field", "minute=5"});
  EXPECT_EQ(now["cronFields"]["hour"], "4");
  EXPECT_FALSE(now.contains("times"));
  EXPECT_THAT(Run({"schedule", "get", "night"}).data, HasSubstr("5 4 * * *"));
  now = Json({"schedule", "update", "night", "--exclude", "* * 24 12 *", "--jitter", "5s"});
  EXPECT_EQ(now["cronFields"]["hour"], "4");
  EXPECT_THAT(now["exclusions"], ElementsAre("* * 24 12 *"));
  now = Json({"schedule", "update", "night", "--exclude", "", "--jitter", "", "--cron", "@daily"});
  EXPECT_FALSE(now.contains("exclusions") || now.contains("jitter"));
  EXPECT_EQ(now["cron"], "@daily");
}

TEST_F(EscctlTest, WarnsOnStderrOfRetriesThatOutlastThePeriod) {
  const std::vector<std::string> create = absl::StrSplit(
      absl::StrCat("schedule create busy --every 1m --max-attempts 20 --validate-only --http ",
                   receiver_->origin()),
      ' ');
  const Said table = Run(create);
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.words, HasSubstr("warning: retries can last "));
  EXPECT_THAT(table.data, Not(HasSubstr("retries")));
  auto kept = create;
  kept.push_back("--retry-keep");
  EXPECT_EQ(Run(kept).words, "escctl: (dry run) nothing was changed\n");
}

TEST_F(EscctlTest, BackfillsAPastRangeInParts) {
  Json({"schedule", "create", "nightly", "--cron", "*/5 * * * *", "--start", "+1h", "--http",
        receiver_->origin() + "/hook"});
  // The range lies before the schedule was made.
  const absl::Time from = absl::Now() - absl::Hours(3);
  const auto time = [](absl::Time at) {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", at, absl::UTCTimeZone());
  };
  const std::vector<std::string> backfill =
      absl::StrSplit(absl::StrCat("schedule backfill nightly --at-once 5 --from ", time(from),
                                  " --to ", time(from + absl::Hours(1))),
                     ' ');
  const Said table = Run(backfill);
  EXPECT_EQ(table.exit_code, 0) << table.words;
  EXPECT_EQ(table.data, "FIRED  PRESENT\n12     0\n");
  receiver_->AwaitRequests(12);
  EXPECT_EQ(receipts_.Stats().distinct, 12u);
  EXPECT_EQ(Json(backfill)["presentCount"], "12");
  EXPECT_EQ(Json({"schedule", "runs", "nightly"}).size(), 12u);
  EXPECT_EQ(receiver_->requests(), 12u);

  EXPECT_EQ(Run({"schedule", "backfill", "nightly"}).exit_code, 2);
  EXPECT_EQ(Run({"schedule", "backfill", "nightly", "--from=-1h", "--to", "yesterday"}).exit_code,
            2);
  const Said ahead = Run({"schedule", "backfill", "nightly", "--from=-1h", "--to", "+1h"});
  EXPECT_EQ(ahead.exit_code, 1);
  EXPECT_EQ(ahead.data, "");
  EXPECT_THAT(ahead.words, HasSubstr("end_time"));
}

TEST_F(EscctlTest, AccountsForEveryOccurrence) {
  Json({"schedule", "create", "good", "--every", "1s", "--http", receiver_->origin() + "/hook"});
  Json({"schedule", "create", "bad", "--every", "1s", "--max-attempts", "1", "--http",
        receiver_->origin() + "/fail/1000/status/503/hook"});
  const auto ended = [&](const std::string& name) {
    return Json({"schedule", "runs", name, "--filter", "state = COMPLETED", "--wait", "30s"});
  };
  ASSERT_FALSE(ended("good").empty());
  ASSERT_FALSE(ended("bad").empty());

  const Said good = Run({"schedule", "account", "good"});
  EXPECT_EQ(good.exit_code, 0) << good.words;
  EXPECT_THAT(good.data, HasSubstr("ON_TIME"));
  EXPECT_THAT(good.data, Not(HasSubstr("schedules/good/runs/")));
  const Said bad = Run({"schedule", "account", "bad", "--from=-1h", "--to", "now"});
  EXPECT_EQ(bad.exit_code, 0) << bad.words;
  EXPECT_THAT(bad.data, ContainsRegex("schedules/bad/runs/[^ ]+ +FAILED .*503"));

  const Said all = Run({"account", "--all", "--hours", "1", "--limit", "1"});
  EXPECT_EQ(all.exit_code, 0) << all.words;
  EXPECT_THAT(all.data, HasSubstr("ON_TIME"));
  EXPECT_THAT(all.data, HasSubstr("FAILED"));
  EXPECT_THAT(all.data, Not(HasSubstr("UNACCOUNTED")));
  EXPECT_THAT(all.words, HasSubstr("2 schedules"));
  const auto json = Json({"account", "--all", "--filter", "result = PENDING"});
  EXPECT_TRUE(json.contains("counts"));
  for (const auto& occurrence : json.value("occurrences", nlohmann::json::array()))
    EXPECT_EQ(occurrence["result"], "PENDING");

  EXPECT_EQ(Run({"schedule", "account", "none"}).exit_code, 3);
  EXPECT_EQ(Run({"account"}).exit_code, 2);
  EXPECT_EQ(Run({"account", "--all", "--hours", "0"}).exit_code, 2);
}

TEST_F(EscctlTest, ShowsWhyARunWasSkipped) {
  // The first answer takes longer than the test may take.
  Json({"schedule", "create", "slow", "--every", "1s", "--overlap", "skip", "--delivery-timeout",
        "10m", "--http", receiver_->origin() + "/hang"});
  receiver_->AwaitRequests(1);
  const auto skipped = [&] {
    const auto runs = Json({"schedule", "runs", "slow"});
    return std::find_if(runs.begin(), runs.end(),
                        [](const auto& run) { return run["state"] == "SKIPPED"; }) != runs.end();
  };
  while (!skipped()) continue;
  for (const auto& run : Json({"schedule", "runs", "slow"})) {
    if (run["state"] == "SKIPPED") {
      EXPECT_EQ(run["skipReason"], "overlap");
    }
  }
  const Said table = Run({"schedule", "runs", "slow"});
  EXPECT_THAT(table.data, ContainsRegex("SKIPPED .* overlap\n"));
  EXPECT_THAT(table.data, ContainsRegex("ACTIVE .* -\n"));
}

}  // namespace escctl_time_test
}  // namespace escapement::integration
