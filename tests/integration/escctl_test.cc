// escctl against a real platform: what it prints, and its exit codes.

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace escctl_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(EscctlTest, TakesAScheduleThroughItsLife) {
  const std::string uri = receiver_->origin() + "/hook";
  EXPECT_EQ(
      Json({"schedule", "create", "nightly", "--cron", "0 3 * * *", "--time-zone", "Asia/Kolkata",
            "--http", uri, "--payload", "{\"a\":1}", "--label", "team=a"})["name"],
      "tenants/default/schedules/nightly");
  EXPECT_EQ(Json({"schedule", "get", "nightly"})["timeZone"], "Asia/Kolkata");
  EXPECT_EQ(Json({"schedule", "update", "nightly", "-n", "3"})["eventCount"], "3");
  EXPECT_EQ(Json({"schedule", "pause", "nightly", "--reason", "holiday"})["state"], "PAUSED");
  EXPECT_EQ(Json({"schedule", "resume", "nightly"})["state"], "ENABLED");
  EXPECT_EQ(Json({"schedule", "list"}).size(), 1u);
  const Said table = Run({"schedule", "list"});
  EXPECT_THAT(table.data, StartsWith("NAME "));
  EXPECT_THAT(table.data, HasSubstr("0 3 * * *"));
  EXPECT_THAT(Run({"schedule", "get", "nightly", "-o", "yaml"}).data,
              HasSubstr("timeZone: \"Asia/Kolkata\""));

  const std::string run = Json({"schedule", "trigger", "nightly"})["name"];
  receiver_->AwaitRequests(3);
  EXPECT_EQ(Json({"run", "get", run})["eventCount"], "3");
  EXPECT_EQ(Json({"schedule", "runs", "nightly", "--filter", "state = COMPLETED", "--wait", "30s"})
                .size(),
            1u);
  const Said waited =
      Run({"schedule", "runs", "nightly", "--filter", "state = SKIPPED", "--wait", "300ms"});
  EXPECT_EQ(waited.exit_code, 1);
  EXPECT_THAT(waited.words, HasSubstr("no such run within 300ms"));
  EXPECT_THAT(Run({"schedule", "runs", "nightly", "--wait", "soon"}).words, HasSubstr("--wait"));
  EXPECT_EQ(Run({"schedule", "runs", "nightly", "--require-success"}).exit_code, 0);
  EXPECT_EQ(Run({"run", "events", run}).exit_code, 0);
  const Said report = Run({"run", "get", run});
  EXPECT_THAT(report.data, HasSubstr("Never started: 0"));
  EXPECT_THAT(report.data, HasSubstr("SLOWEST EVENTS"));
  EXPECT_THAT(report.data, HasSubstr(absl::StrCat(run, "/events/2")));
  const Said deleted = Run({"schedule", "delete", "nightly"});
  EXPECT_EQ(deleted.exit_code, 0);
  EXPECT_EQ(deleted.data, "");
  EXPECT_THAT(deleted.words, HasSubstr("deleted"));
}

TEST_F(EscctlTest, RunsOfWhichSuccessIsRequiredFailWithTheReason) {
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "--max-attempts", "1", "--http",
        receiver_->origin() + "/fail/1/status/503/hook"});
  const std::vector<std::string> runs = {"schedule", "runs", "s", "--require-success"};
  const Said none = Run(runs);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.words, HasSubstr("0 of 0 runs have succeeded"));
  Json({"schedule", "trigger", "s"});
  std::vector<std::string> ended = runs;
  ended.insert(ended.end(), {"--filter", "state = COMPLETED", "--wait", "30s"});
  const Said failed = Run(ended);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.words, HasSubstr("0 of 1 runs have succeeded"));
  EXPECT_THAT(failed.data, HasSubstr("PERMANENTLY_FAILED"));
  EXPECT_THAT(failed.data, HasSubstr("503"));
}

// The policy lets one event out, and nobody gives its token back.
TEST_F(EscctlTest, CancelsARunWhoseEventsWait) {
  Json({"policy", "create", "one", "--max-concurrent", "1"});
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "-n", "50", "--policy", "one", "--http",
        receiver_->origin() + "/hook"});
  const std::string run = Json({"schedule", "trigger", "s"})["name"];
  receiver_->AwaitRequests(1);
  EXPECT_EQ(Json({"run", "cancel", run, "--request-id", "r"})["state"], "ACTIVE");
  nlohmann::json shown;
  for (int tries = 0; tries < 300 && shown["cancelledCount"] != "49"; ++tries)
    shown = Json({"run", "get", run});
  EXPECT_EQ(shown["cancelledCount"], "49") << shown;
  const auto events = Json({"run", "events", run, "--filter", "outcome=CANCELLED"});
  ASSERT_EQ(events.size(), 49u);
  EXPECT_EQ(events[0]["reason"], "cancelled");
  EXPECT_EQ(Json({"run", "cancel", run, "--request-id", "r"})["state"], "ACTIVE");
  // The event that is out ends by its consumer's result.
  const auto usage = Json({"policy", "usage", "one"});
  ASSERT_EQ(usage["holders"].size(), 1u) << usage;
  EXPECT_EQ(Run({"run", "cancel", "s/runs/20300101T000000.000000Z"}).exit_code, 3);
}

TEST_F(EscctlTest, CreatesCancelsAndIngestsEvents) {
  const std::string uri = receiver_->origin() + "/hook";
  EXPECT_EQ(Json({"event", "create", "once", "--due", "+1h", "--http", uri})["state"], "PENDING");
  EXPECT_EQ(Json({"event", "cancel", "once"})["outcome"], "CANCELLED");
  EXPECT_EQ(Json({"event", "get", "once"})["state"], "ENDED");
  Json({"event", "create", "late", "--due", "2020-01-01T00:00:00Z", "--max-lateness", "1h",
        "--http", uri});
  auto late = Json({"event", "get", "late"});
  EXPECT_TRUE(Await([&] {
    late = Json({"event", "get", "late"});
    return late["state"] == "ENDED";
  }));
  EXPECT_EQ(late["outcome"], "EXPIRED");
  EXPECT_THAT(std::string(late["reason"]), HasSubstr("missed by "));

  const std::string file = folder_ + "/events.jsonl";
  {
    std::ofstream out(file);
    for (int i = 0; i < 2500; ++i) out << "{\"eventId\":\"e" << i << "\",\"payload\":\"e30=\"}\n";
  }
  const auto counts = Json({"event", "ingest", "-f", file, "--http", uri});
  EXPECT_EQ(counts["created"], 2500);
  receiver_->AwaitRequests(2500);
  EXPECT_EQ(Json({"event", "ingest", "-f", file, "--http", uri})["existing"], 2500);
  EXPECT_EQ(receipts_.Stats().distinct, 2500u);
  // Without a terminal there is no line of progress.
  EXPECT_EQ(Run({"event", "ingest", "-f", file, "--http", uri}).words, "");
  const auto refused = Run({"event", "ingest", "-f", file, "--http", "ftp://x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.data, HasSubstr("0        0         0         0          2500\n"));
}

TEST_F(EscctlTest, CancelsSeveralEventsByNamesOrFilter) {
  const std::string uri = receiver_->origin() + "/hook";
  for (const char* id : {"a1", "a2", "a3", "b1"})
    Json({"event", "create", id, "--due", "+1h", "--http", uri});
  const auto ended = [&](const nlohmann::json& begun) {
    nlohmann::json operation = begun;
    for (int tries = 0; tries < 300 && operation["state"] == "RUNNING"; ++tries)
      operation = Json({"operation", "get", begun["name"]});
    EXPECT_EQ(operation["state"], "SUCCEEDED") << operation;
    return operation;
  };
  const auto named = ended(Json({"event", "cancel", "a1", "b1", "none"}));
  EXPECT_EQ(named["kind"], "CANCEL_EVENTS");
  EXPECT_EQ(named["doneCount"], "2");
  EXPECT_EQ(named["failedCount"], "1");
  EXPECT_EQ(Json({"event", "cancel", "--filter", "name = \"a*\"", "--validate-only"})["totalCount"],
            "2");
  EXPECT_EQ(ended(Json({"event", "cancel", "--filter", "name = \"a*\""}))["doneCount"], "2");
  EXPECT_EQ(Json({"event", "get", "a3"})["outcome"], "CANCELLED");
  EXPECT_NE(Run({"event", "cancel"}).exit_code, 0);
  EXPECT_NE(Run({"event", "cancel", "a1", "a2", "--etag", "x"}).exit_code, 0);
}

TEST_F(EscctlTest, ListsEventsByFilterAndOrder) {
  const std::string uri = receiver_->origin() + "/hook";
  for (const char* id : {"b3", "a1", "a2"})
    Json({"event", "create", id, "--due", absl::StrCat("+", id + 1, "h"), "--http", uri});
  Json({"event", "create", "now", "--http", uri});
  receiver_->AwaitRequests(1);
  Json({"event", "cancel", "b3"});
  const auto ids = [](const nlohmann::json& events) {
    std::string ids;
    for (const auto& event : events) ids += event["eventId"].get<std::string>() + " ";
    return ids;
  };
  EXPECT_EQ(ids(Json({"event", "list", "--filter", "name = \"a*\" AND target = http"})), "a1 a2 ");
  EXPECT_EQ(
      ids(Json({"event", "list", "--filter", "name = \"a*\"", "--order-by", "due_time desc"})),
      "a2 a1 ");
  EXPECT_EQ(ids(Json({"event", "list", "--filter", "outcome = CANCELLED"})), "b3 ");
  const Said limited =
      Run({"event", "list", "--filter", "name = \"a*\"", "--limit", "1", "-o", "yaml"});
  EXPECT_THAT(limited.data, HasSubstr("tenants/default/events/a1"));
  EXPECT_THAT(limited.words, HasSubstr("there are more events"));
  const Said table = Run({"event", "list", "--order-by", "complete_time"});
  EXPECT_THAT(table.data, StartsWith("NAME "));
  EXPECT_THAT(table.data, HasSubstr("CANCELLED"));
  EXPECT_EQ(Run({"event", "list", "--filter", "colour = red"}).exit_code, 1);
}

TEST_F(EscctlTest, ListsSchedulesAndPoliciesByFilter) {
  for (const char* id : {"one", "two"}) {
    Json({"schedule", "create", id, "--every", "1h", "--http", receiver_->origin() + "/hook"});
    Json({"policy", "create", id, "-m", id[0] == 'o' ? "1" : "2"});
  }
  Json({"schedule", "pause", "two"});
  const auto paused = Json({"schedule", "list", "--filter", "state = PAUSED"});
  ASSERT_EQ(paused.size(), 1u);
  EXPECT_EQ(paused[0]["name"], "tenants/default/schedules/two");
  const auto wide = Json({"policy", "list", "--filter", "max_concurrent > 1"});
  ASSERT_EQ(wide.size(), 1u);
  EXPECT_EQ(wide[0]["name"], "tenants/default/policies/two");
  EXPECT_EQ(Json({"policy", "list", "--order-by", "name desc"})[0]["name"],
            "tenants/default/policies/two");
}

TEST_F(EscctlTest, ValidateOnlyChangesNothing) {
  const std::string uri = receiver_->origin() + "/hook";
  EXPECT_EQ(
      Json({"event", "create", "e", "--due", "+1h", "--http", uri, "--validate-only"})["state"],
      "PENDING");
  EXPECT_EQ(Run({"event", "get", "e"}).exit_code, 3);
  Json({"schedule", "create", "s", "--every", "1h", "--http", uri});
  Json({"policy", "create", "p", "-m", "1"});
  EXPECT_EQ(Json({"schedule", "pause", "s", "--validate-only"})["state"], "PAUSED");
  EXPECT_EQ(Run({"schedule", "resume", "s", "--validate-only"}).exit_code, 1);
  EXPECT_THAT(Run({"schedule", "trigger", "s", "--validate-only"}).data, HasSubstr("/runs/"));
  EXPECT_EQ(Json({"schedule", "backfill", "s", "--from=-3h", "--to", "now", "--validate-only"})
                .contains("nextStartTime"),
            false);
  EXPECT_THAT(Run({"schedule", "delete", "s", "--validate-only"}).words,
              HasSubstr("can be deleted"));
  EXPECT_THAT(Run({"policy", "delete", "p", "--validate-only"}).words, HasSubstr("can be deleted"));
  EXPECT_EQ(Json({"policy", "pause", "p", "--validate-only"})["state"], "PAUSED");
  EXPECT_EQ(Json({"schedule", "get", "s"})["state"], "ENABLED");
  EXPECT_EQ(Json({"policy", "get", "p"})["state"], "ENABLED");
  EXPECT_EQ(Json({"schedule", "runs", "s"}).size(), 0u);
}

TEST_F(EscctlTest, IngestShowsItsProgressOnATerminal) {
  const std::string file = folder_ + "/events.jsonl";
  std::ofstream(file) << "{}\n{}\n";
  // script gives the command a terminal, and copies it to stdout.
  auto child = ChildProcess::Start(
      {.program = "/usr/bin/script",
       .arguments = {"-qec",
                     absl::StrCat(BuiltFolder(), "/tools/escctl/escctl event ingest -f ", file,
                                  " --http ", receiver_->origin()),
                     "/dev/null"},
       .environment = environment_,
       .log = folder_ + "/script"});
  ASSERT_TRUE(child.ok()) << child.status();
  std::string shown;
  for (auto line = (*child)->AwaitLine("", absl::Seconds(30)); line.ok();
       line = (*child)->AwaitLine("", absl::Seconds(30))) {
    absl::StrAppend(&shown, *line, "\n");
  }
  EXPECT_THAT(shown, HasSubstr("\r\x1b[K2 created, 0 existing, 0 refused, "));
}

TEST_F(EscctlTest, TakesAPolicyThroughItsLife) {
  const auto made = Json({"policy", "create", "backup", "-m", "50", "--max-per-second", "2.5",
                          "--on-expiry", "hold", "--hold-timeout", "90s"});
  EXPECT_EQ(made["name"], "tenants/default/policies/backup");
  EXPECT_EQ(made["maxConcurrent"], "50");
  EXPECT_EQ(made["burst"], "1");
  EXPECT_EQ(made["onExpiry"], "HOLD");
  EXPECT_EQ(made["holdTimeout"], "90s");
  EXPECT_EQ(Json({"policy", "get", "backup"}), made);
  const auto updated = Json({"policy", "update", "backup", "--max-per-second", "0", "--fairness",
                             "FIFO", "--etag", made["etag"]});
  EXPECT_FALSE(updated.contains("maxPerSecond"));
  EXPECT_EQ(updated["maxConcurrent"], "50");
  EXPECT_EQ(updated["fairness"], "FIFO");
  EXPECT_EQ(Run({"policy", "update", "backup", "-m", "1", "--etag", made["etag"]}).exit_code, 1);
  EXPECT_EQ(Json({"policy", "pause", "backup", "--reason", "holiday"})["state"], "PAUSED");
  EXPECT_EQ(Json({"policy", "resume", "backup"})["state"], "ENABLED");
  EXPECT_EQ(Json({"policy", "create", "other", "--max-per-second", "1"})["burst"], "1");
  EXPECT_EQ(Json({"policy", "list"}).size(), 2u);
  const Said some = Run({"policy", "list", "--limit", "1"});
  EXPECT_THAT(some.data, StartsWith("NAME "));
  EXPECT_THAT(some.data, HasSubstr("tenants/default/policies/backup"));
  EXPECT_THAT(some.words, HasSubstr("raise --limit"));
  EXPECT_THAT(Run({"policy", "get", "backup", "-o", "yaml"}).data,
              HasSubstr("maxConcurrent: \"50\""));
  const Said deleted = Run({"policy", "delete", "backup"});
  EXPECT_EQ(deleted.exit_code, 0);
  EXPECT_EQ(deleted.data, "");
  EXPECT_THAT(deleted.words, HasSubstr("deleted tenants/default/policies/backup"));
  EXPECT_EQ(Run({"policy", "get", "backup"}).exit_code, 3);
}

TEST_F(EscctlTest, OverridesLimitsAndShowsKeys) {
  const auto made = Json({"policy", "create", "backup", "-m", "50", "--max-concurrent-per-key", "2",
                          "--max-per-second-per-key", "0.5", "--burst-per-key", "3", "--fairness",
                          "by_key", "--retries", "keep_token"});
  EXPECT_EQ(made["perKey"],
            nlohmann::json::parse(R"({"maxConcurrent":"2","maxPerSecond":0.5,"burst":"3"})"));
  EXPECT_EQ(made["fairness"], "BY_KEY");
  EXPECT_EQ(made["retries"], "KEEP_TOKEN");
  EXPECT_THAT(Run({"policy", "get", "backup"}).data,
              AllOf(HasSubstr("2 + 0.5/s"), HasSubstr("KEEP_TOKEN"), Not(HasSubstr("drain"))));
  EXPECT_EQ(Json({"policy", "update", "backup", "--max-per-second-per-key", "0"})["perKey"],
            nlohmann::json::parse(R"({"maxConcurrent":"2"})"));

  EXPECT_THAT(Run({"policy", "override", "backup", "-m", "1", "--reason", "drain"}).words,
              HasSubstr("give --for or --until"));
  EXPECT_THAT(
      Run({"policy", "override", "backup", "-m", "1", "--reason", "drain", "--for", "40d"}).words,
      HasSubstr("--for: must be later than now"));
  const auto whole =
      Json({"policy", "override", "backup", "-m", "0", "--reason", "drain", "--for", "10m"});
  ASSERT_EQ(whole["overrides"].size(), 1u) << whole;
  EXPECT_EQ(whole["overrides"][0]["maxConcurrent"], "0");
  EXPECT_FALSE(whole["overrides"][0].contains("policyKey"));
  EXPECT_EQ(Json({"policy", "override", "backup", "--key", "acme", "--max-per-second", "0.5",
                  "--reason", "slow", "--until", "+1h"})["overrides"]
                .size(),
            2u);
  EXPECT_THAT(Run({"policy", "get", "backup"}).data,
              AllOf(HasSubstr("OVERRIDDEN KEY"), HasSubstr("acme"), HasSubstr("0.5/s, burst 1"),
                    HasSubstr("drain")));

  Json({"policy", "pause", "backup"});
  const std::string uri = receiver_->origin() + "/hook";
  for (const char* key : {"acme", "other"}) {
    Json({"event", "create", "--policy", "backup", "--policy-key", key, "--completion",
          "on-release", "--http", uri});
  }
  const auto keys = Json({"policy", "keys", "backup"});
  ASSERT_EQ(keys.size(), 2u) << keys;
  EXPECT_EQ(keys[0]["policyKey"], "acme");
  EXPECT_EQ(keys[0]["waitingCount"], "1");
  EXPECT_EQ(keys[0]["override"]["reason"], "slow");
  EXPECT_EQ(Json({"policy", "keys", "backup", "--prefix", "oth"}).size(), 1u);
  EXPECT_THAT(Run({"policy", "keys", "backup"}).data,
              AllOf(StartsWith("KEY "), HasSubstr("acme"), HasSubstr("0.5/s, burst 1")));
  EXPECT_THAT(Run({"policy", "usage", "backup", "--keys"}).data, HasSubstr("\nKEY "));
  EXPECT_THAT(Run({"policy", "usage", "backup"}).data, Not(HasSubstr("\nKEY ")));

  EXPECT_EQ(Json({"policy", "clear-override", "backup"})["overrides"].size(), 1u);
  const Said refused = Run({"policy", "clear-override", "backup"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("no such override"));
  EXPECT_FALSE(Json({"policy", "clear-override", "backup", "--key", "acme"}).contains("overrides"));
}

TEST_F(EscctlTest, ShowsWhatWaitsUnderAPolicyThatIsPaused) {
  Json({"policy", "create", "backup", "-m", "2"});
  Json({"policy", "pause", "backup"});
  EXPECT_THAT(Run({"schedule", "create", "nightly", "--cron", "0 3 1 1 *", "--policy", "backup",
                   "-n", "5", "--http", receiver_->origin() + "/hook"})
                  .words,
              HasSubstr("warning: the consumer must give tokens back"));
  Json({"schedule", "trigger", "nightly"});
  const auto usage = Json({"policy", "usage", "backup"});
  EXPECT_EQ(usage["waitingCount"], "5");
  EXPECT_EQ(usage["waiters"][0]["schedule"], "tenants/default/schedules/nightly");
  EXPECT_FALSE(usage.contains("heldCount"));
  const Said table = Run({"policy", "usage", "backup"});
  EXPECT_THAT(table.data, StartsWith("NAME "));
  EXPECT_THAT(table.data, HasSubstr("WAITING SCHEDULE"));
  const Said refused = Run({"policy", "delete", "backup"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("a schedule still refers to"));
}

TEST_F(EscctlTest, OneOffEventsWaitUnderTheirPolicy) {
  const std::string uri = receiver_->origin() + "/hook";
  const std::string full = "tenants/default/policies/backup";
  Json({"policy", "create", "backup", "-m", "2"});
  Json({"policy", "pause", "backup"});
  const auto made = Json({"event", "create", "once", "--policy", "backup", "--http", uri});
  EXPECT_EQ(made["policy"], full);
  EXPECT_EQ(made["completion"], "ON_RELEASE");
  const std::string file = folder_ + "/events.jsonl";
  std::ofstream(file) << R"({"eventId":"a"})"
                      << "\n"
                      << R"({"eventId":"b","completion":"ON_RELEASE"})"
                      << "\n";
  const auto counts = Json({"event", "ingest", "-f", file, "--policy", full, "--completion",
                            "on-delivery", "--http", uri});
  EXPECT_EQ(counts["created"], 2);
  EXPECT_EQ(Json({"event", "get", "a"})["completion"], "ON_DELIVERY");
  EXPECT_EQ(Json({"event", "get", "b"})["completion"], "ON_RELEASE");
  EXPECT_THAT(Run({"event", "get", "a"}).data, AllOf(HasSubstr("POLICY"), HasSubstr(full)));
  EXPECT_THAT(Run({"event", "list"}).data, AllOf(HasSubstr("POLICY"), HasSubstr(full)));
  EXPECT_EQ(Json({"policy", "usage", "backup"})["waitingCount"], "3");
  EXPECT_THAT(Run({"policy", "usage", "backup"}).data, HasSubstr("one-off events"));
  EXPECT_EQ(Json({"event", "cancel", "b"})["outcome"], "CANCELLED");

  Json({"policy", "resume", "backup"});
  receiver_->AwaitRequests(2);
  // The one that is complete on delivery gives its token back by itself.
  nlohmann::json usage;
  for (int tries = 0; tries < 300 && usage["holders"].size() != 1; ++tries)
    usage = Json({"policy", "usage", "backup"});
  ASSERT_EQ(usage["holders"].size(), 1u) << usage;
  EXPECT_EQ(usage["holders"][0]["event"], "tenants/default/events/once");
  EXPECT_EQ(Run({"token", "release", usage["holders"][0]["token"]}).exit_code, 0);

  const Said refused = Run({"event", "create", "--policy", "none", "--http", uri});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("--policy"));
}

TEST_F(EscctlTest, SaysWhyAnEventWaitsAndWhenAScheduleFires) {
  const std::string uri = receiver_->origin() + "/hook";
  Json({"policy", "create", "backup", "-m", "2"});
  Json({"policy", "pause", "backup", "--reason", "disk full"});
  Json({"event", "create", "once", "--policy", "backup", "--http", uri});
  const auto waits = Json({"why", "once"});
  EXPECT_EQ(waits["name"], "tenants/default/events/once");
  ASSERT_EQ(waits["gates"].size(), 1u) << waits;
  EXPECT_EQ(waits["gates"][0]["kind"], "POLICY_PAUSED");
  EXPECT_EQ(waits["gates"][0]["reason"], "disk full");
  const Said table = Run({"why", "once"});
  EXPECT_THAT(table.words, HasSubstr("The policy backup is paused."));
  EXPECT_THAT(table.data, AllOf(StartsWith("GATE "), HasSubstr("POLICY_PAUSED"),
                                HasSubstr("The policy is resumed.")));
  Json({"policy", "resume", "backup"});
  receiver_->AwaitRequests(1);
  nlohmann::json held;
  for (int tries = 0; tries < 300 && !held.contains("phases"); ++tries)
    held = Json({"why", "once"});
  ASSERT_TRUE(held.contains("phases")) << held;
  EXPECT_EQ(held["gates"][0]["kind"], "HELD_BY_CONSUMER");
  EXPECT_THAT(Run({"why", "tenants/default/events/once"}).data, HasSubstr("PART "));

  Json({"schedule", "create", "nightly", "--cron", "0 3 1 1 *", "--http", uri});
  const auto fires = Json({"why", "nightly"});
  EXPECT_EQ(fires["children"][0]["class"], "MONTH_DAY");
  EXPECT_THAT(fires["emitter"].get<std::string>(), HasSubstr("standalone"));
  EXPECT_FALSE(fires.contains("gates"));
  EXPECT_THAT(Run({"why", "nightly"}).words, HasSubstr("It fires next at "));
  const Said none = Run({"why", "nothing"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.words, HasSubstr("there is no schedule and no event"));
}

TEST_F(EscctlTest, GivesTokensBackByHand) {
  Json({"policy", "create", "backup", "-m", "2"});
  Json({"schedule", "create", "nightly", "--cron", "0 3 1 1 *", "--policy", "backup", "-n", "2",
        "--http", receiver_->origin() + "/hook"});
  Json({"schedule", "trigger", "nightly"});
  receiver_->AwaitRequests(2);
  const auto usage = Json({"policy", "usage", "backup"});
  EXPECT_EQ(usage["heldCount"], "2");
  ASSERT_EQ(usage["holders"].size(), 2u);
  EXPECT_THAT(usage["holders"][0]["event"].get<std::string>(),
              StartsWith("tenants/default/schedules/nightly/runs/"));
  const std::string first = usage["holders"][0]["token"];
  const std::string second = usage["holders"][1]["token"];
  EXPECT_THAT(Run({"policy", "usage", "backup"}).data, HasSubstr(first));
  // The owner in this process does it at once, or it is stored for the owner.
  const auto taken = AnyOf("DONE", "STORED");
  const auto status_of = [](const nlohmann::json& results) {
    return results[0]["status"].get<std::string>();
  };
  EXPECT_THAT(status_of(Json({"token", "extend", first, "--hold", "10m"})), taken);
  EXPECT_THAT(status_of(Json({"token", "complete", first, "--outcome", "failed", "--final",
                              "--output", "disk full"})),
              taken);
  EXPECT_THAT(status_of(Json({"token", "release", second})), taken);
  const Said unknown = Run({"token", "release", "nonsense"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.data, HasSubstr("INVALID"));
  EXPECT_THAT(unknown.words, HasSubstr("not of this platform"));
}

TEST_F(EscctlTest, TriggersAPausedScheduleThatStaysPaused) {
  Json({"schedule", "create", "yearly", "--cron", "0 0 1 1 *", "--http",
        receiver_->origin() + "/hook"});
  Json({"schedule", "pause", "yearly"});
  Json({"schedule", "trigger", "yearly"});
  receiver_->AwaitRequests(1);
  EXPECT_EQ(Json({"schedule", "get", "yearly"})["state"], "PAUSED");
  const Said hostile = Run({"schedule", "create", "x", "--cron", "@daily", "--http",
                            receiver_->origin(), "--label", "a=\x1b[2J"});
  EXPECT_EQ(hostile.exit_code, 1);
  EXPECT_THAT(hostile.words, HasSubstr("INVALID_ARGUMENT: --label: "));
  EXPECT_EQ(hostile.words.find('\x1b'), std::string::npos);
}

// Runs are listed some seconds before they are due.
TEST_F(EscctlTest, WaitsForARunThatHasBegun) {
  Json({"schedule", "create", "often", "--every", "3s", "--http", receiver_->origin() + "/hook"});
  const nlohmann::json runs = Json({"schedule", "runs", "often", "--limit", "3", "--wait", "30s"});
  EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [](const auto& run) {
    return run["state"] != "UPCOMING";
  })) << runs;
  const Said none =
      Run({"schedule", "runs", "often", "--filter", "state = CANCELLED", "--wait", "1ms"});
  EXPECT_EQ(none.exit_code, 1);
}

TEST_F(EscctlTest, PrintsAHostileConsumersWordsWithoutControlCharacters) {
  const std::string hostile =
      "a\x1b[2J\x1b]0;title\x07\xc2\x9b\x7f\r\xe2\x80\xae"
      "b";
  auto consumer = fixtures::GrpcReceiver::Start(
      {.behaviour = "/status/410", .failure_message = hostile}, &receipts_);
  ASSERT_TRUE(consumer.ok()) << consumer.status();
  Json({"schedule", "create", "yearly", "--cron", "0 0 1 1 *", "--grpc", (*consumer)->target()});
  const std::string run = Json({"schedule", "trigger", "yearly"})["name"];
  (*consumer)->AwaitDeliveries(1);
  while (Json({"run", "get", run})["state"] == "ACTIVE") {
  }
  for (const char* format : {"table", "json", "yaml"}) {
    const Said said = Run({"run", "events", run, "-o", format});
    EXPECT_EQ(said.exit_code, 0) << said.words;
    EXPECT_THAT(said.data, HasSubstr("FAILED"));
    EXPECT_THAT(said.data, HasSubstr("[2J"));
    EXPECT_THAT(said.data, HasSubstr("b"));
    for (const absl::string_view line : absl::StrSplit(said.data, '\n'))
      EXPECT_FALSE(HasControlCharacters(line)) << absl::CHexEscape(line);
  }
  const Said runs = Run({"schedule", "runs", "yearly"});
  EXPECT_THAT(runs.data, HasSubstr("[2J"));
  for (const absl::string_view line : absl::StrSplit(runs.data, '\n'))
    EXPECT_FALSE(HasControlCharacters(line)) << absl::CHexEscape(line);
  // The violation names the label that is too long.
  const Said refused =
      Run({"schedule", "create", "x", "--cron", "@daily", "--grpc", (*consumer)->target(),
           "--label", absl::StrCat(hostile, std::string(100, 'k'), "=v")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("--label[a\\x1b[2J"));
  for (const absl::string_view line : absl::StrSplit(refused.words, '\n'))
    EXPECT_FALSE(HasControlCharacters(line)) << absl::CHexEscape(line);
}

TEST_F(EscctlTest, ShowsAndConfirmsTheStoresClock) {
  for (const bool confirm : {false, true}) {
    std::vector<std::string> arguments = {"store", "clock"};
    if (confirm) arguments.push_back("--confirm");
    const Said clock = Run(arguments);
    EXPECT_EQ(clock.exit_code, 0) << clock.words;
    EXPECT_THAT(clock.data, HasSubstr("runs"));
  }
  EXPECT_TRUE(Json({"store", "clock"}).contains("storeTime"));
}

TEST_F(EscctlTest, PrintsItsVersion) {
  const Said version = Run({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.data, "escctl 0.0.0-dev (commit unknown)\n");
  EXPECT_EQ(version.words, "");
}

TEST_F(EscctlTest, SuggestsTheWordThatWasMeant) {
  const auto words = [this](std::vector<std::string> line) {
    const Said said = Run(std::move(line));
    EXPECT_EQ(said.exit_code, 2) << said.words;
    return said.words;
  };
  EXPECT_THAT(words({"scheduel", "list"}),
              HasSubstr("there is no command 'scheduel'; did you mean schedule?"));
  EXPECT_THAT(words({"schedule", "lst"}), HasSubstr("no command 'lst'; did you mean list?"));
  EXPECT_THAT(words({"schedule", "list", "--filtre", "x"}),
              HasSubstr("there is no flag --filtre; did you mean --filter?"));
  EXPECT_THAT(words({"event", "get", "e", "one", "two"}), HasSubstr("'one' was not expected"));
  EXPECT_THAT(words({"schedule", "fly-to-the-moon"}),
              AllOf(HasSubstr("there is no command"), Not(HasSubstr("did you mean"))));
}

TEST_F(EscctlTest, FailsIfItsOutputCannotBeWritten) {
  auto child = ChildProcess::Start(
      {.program = "/bin/sh",
       .arguments = {"-c", absl::StrCat("exec ", BuiltFolder(), "/tools/escctl/escctl --server ",
                                        platform_->grpc_address("standalone"),
                                        " schedule list > /dev/full")},
       .log = folder_ + "/full"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(*(*child)->Wait(absl::Seconds(20)), 1);
}

TEST_F(EscctlTest, ReadsWhatPeopleAndItselfWrite) {
  const std::string uri = receiver_->origin() + "/hook";
  EXPECT_EQ(
      Json({"schedule", "create", "daily", "--every", "1d", "--http", uri})["interval"]["every"],
      "86400s");
  EXPECT_EQ(Json({"schedule", "update", "daily", "--every", "1d12h"})["interval"]["every"],
            "129600s");
  EXPECT_EQ(Json({"schedule", "update", "daily", "--every", "5 min"})["interval"]["every"], "300s");
  for (const char* wrong : {"d", "-1d", "1d1d", "1dx", "5 moons"})
    EXPECT_EQ(Run({"schedule", "update", "daily", "--every", wrong}).exit_code, 2) << wrong;
  const Said refused = Run({"event", "create", "--payload", "{hi:1}", "--http", uri});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.words, HasSubstr("--payload: is not JSON"));
  Json({"event", "create", "--payload", "{hi:1}", "--content-type", "text/plain", "--http", uri,
        "--due", "+1h"});

  const std::string file = folder_ + "/daily.yaml";
  std::ofstream(file) << Run({"schedule", "get", "daily", "-o", "yaml"}).data;
  const Said applied = Run({"apply", "-f", file});
  EXPECT_EQ(applied.exit_code, 0) << applied.words;
  EXPECT_THAT(applied.data, HasSubstr("schedule/daily unchanged"));

  const std::string lines = folder_ + "/windows.jsonl";
  std::ofstream(lines, std::ios::binary) << "{\"eventId\":\"w1\"}\r\n\r\n{\"eventId\":\"w2\"}\r\n";
  EXPECT_EQ(Json({"event", "ingest", "-f", lines, "--http", uri})["created"], 2);

  const Said dry = Run({"schedule", "pause", "daily", "--validate-only"});
  EXPECT_THAT(dry.words, HasSubstr("(dry run) nothing was changed"));
}

TEST_F(EscctlTest, FindsATargetByAUrlThatGoesToIt) {
  const std::string uri = receiver_->origin() + "/hook";
  Json({"event", "create", "e", "--http", uri});
  receiver_->AwaitRequests(1);
  Said said;
  for (int tries = 0; tries < 300 && said.exit_code != 0; ++tries)
    said = Run({"target", "get", uri, "-o", "json"});
  ASSERT_EQ(said.exit_code, 0) << said.words;
  EXPECT_THAT(said.data, HasSubstr(receiver_->origin()));
  EXPECT_EQ(Run({"target", "reset", uri}).exit_code, 0);
  EXPECT_EQ(Run({"target", "get", "http://127.0.0.1:1/x"}).exit_code, 3);
}

TEST_F(EscctlTest, SaysWhatIsWrongAndExitsWithIt) {
  const Said refused =
      Run({"schedule", "create", "bad", "--cron", "61 * * * *", "--http", "ftp://x"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.data, "");
  EXPECT_THAT(refused.words, HasSubstr("--cron: minute"));
  EXPECT_THAT(refused.words, HasSubstr("--http: must begin"));
  EXPECT_EQ(Run({"schedule", "get", "nothing"}).exit_code, 3);
  EXPECT_EQ(Run({"--server", "127.0.0.1:1", "--timeout", "1", "schedule", "list"}).exit_code, 5);

  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_EQ(Run({"schedule", "fly"}).exit_code, 2);
  EXPECT_EQ(Run({"schedule", "list", "-o", "xml"}).exit_code, 2);
  EXPECT_EQ(Run({"event", "create", "--due", "soon", "--http", "http://x"}).exit_code, 2);
  EXPECT_EQ(Run({"event", "ingest", "-f", "/nonexistent"}).exit_code, 2);
  EXPECT_EQ(Run({"policy", "update", "backup"}).exit_code, 2);
  EXPECT_EQ(Run({"policy", "create", "p", "--fairness", "LUCK"}).exit_code, 2);
  EXPECT_EQ(Run({"policy", "create", "p", "-m", "1", "--hold-timeout", "soon"}).exit_code, 2);
  EXPECT_EQ(Run({"token", "complete"}).exit_code, 2);
  EXPECT_EQ(Run({"token", "complete", "t", "--final"}).exit_code, 2);
  EXPECT_EQ(Run({"token", "extend", "t", "--hold", "soon"}).exit_code, 2);
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
  const Said nothing = Run({"policy", "create", "p"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.words, HasSubstr("policy.max_concurrent"));
}

}  // namespace escctl_test
}  // namespace escapement::integration
