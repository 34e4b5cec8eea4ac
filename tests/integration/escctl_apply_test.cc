// `escctl apply` against a real platform.

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace escctl_apply_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class EscctlApplyTest : public EscctlTest {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path) << text;
    return path;
  }
};

// The schedule stands before the policy that it needs.
constexpr char kTwo[] = R"(kind: Schedule
name: nightly
cron: 0 3 * * *
timeZone: Europe/Berlin
policy: gentle
labels: {team: a}
target: {http: {uri: "http://127.0.0.1:1/hook"}}
payloadText: '{"hi":1}'
---
kind: ThrottlePolicy
name: gentle
maxConcurrent: 5
)";

TEST_F(EscctlApplyTest, CreatesConfiguresAndLeavesUnchanged) {
  const std::string file = Write("two.yaml", kTwo);
  const Said created = Run({"apply", "-f", file});
  EXPECT_EQ(created.exit_code, 0) << created.words;
  EXPECT_EQ(created.data, "policy/gentle created\nschedule/nightly created\n");
  const auto schedule = Json({"schedule", "get", "nightly"});
  EXPECT_EQ(schedule["payload"], "eyJoaSI6MX0=");
  EXPECT_EQ(schedule["policy"], "tenants/default/policies/gentle");

  EXPECT_EQ(Run({"apply", "-f", file}).data,
            "policy/gentle unchanged\nschedule/nightly unchanged\n");
  EXPECT_EQ(Json({"schedule", "get", "nightly"})["version"], "1");

  // A field that the file does not set any more gets its default. A pause stays.
  Json({"schedule", "pause", "nightly"});
  Write("two.yaml",
        "kind: Schedule\nname: tenants/default/schedules/nightly\ncron: 0 4 * * *\n"
        "target: {http: {uri: \"http://127.0.0.1:1/hook\"}}\n");
  EXPECT_EQ(Run({"apply", "-f", file}).data, "schedule/nightly configured\n");
  const auto changed = Json({"schedule", "get", "nightly"});
  EXPECT_EQ(changed["cron"], "0 4 * * *");
  EXPECT_EQ(changed["timeZone"], "UTC");
  EXPECT_EQ(changed["state"], "PAUSED");
  EXPECT_FALSE(changed.contains("payload"));
  EXPECT_FALSE(changed.contains("labels"));
}

TEST_F(EscctlApplyTest, TakesAnIntervalWithoutAnAnchorAndWhatGetPrints) {
  const std::string file = Write("pulse.json", R"([{"kind":"Schedule","name":"pulse",
      "interval":{"every":"90s"},"target":{"grpc":{"uri":"127.0.0.1:1"}}}])");
  EXPECT_EQ(Run({"apply", "-f", file}).data, "schedule/pulse created\n");
  EXPECT_EQ(Run({"apply", "-f", file}).data, "schedule/pulse unchanged\n");
  Json({"schedule", "pause", "pulse"});
  const Said shown = Run({"schedule", "get", "pulse", "-o", "yaml"});
  const std::string copy = Write("copy.yaml", "kind: Schedule\n" + shown.data);
  const Said same = Run({"apply", "-f", copy});
  EXPECT_EQ(same.data, "schedule/pulse unchanged\n");
  EXPECT_THAT(same.words, HasSubstr("warning: schedule/pulse: state is ignored here"));
}

TEST_F(EscctlApplyTest, AppliesSubscriptionsAndTakesWhatGetPrints) {
  const auto file = [&](const std::string& late_by) {
    return Write("alarm.yaml",
                 absl::StrCat("kind: Subscription\nname: alarm\nfilter: labels.team = a\n"
                              "kinds: [LATE]\nlateBy: ",
                              late_by, "\ntarget: {http: {uri: \"http://127.0.0.1:1/alarm\"}}\n"));
  };
  const Said dry = Run({"apply", "-f", file("10m"), "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.words;
  EXPECT_THAT(dry.data, HasSubstr("+lateBy: \"600s\"\n"));
  EXPECT_THAT(dry.data, HasSubstr("subscription/alarm created (dry run)\n"));
  EXPECT_EQ(Json({"subscription", "list"}).size(), 0u);
  EXPECT_EQ(Run({"apply", "-f", file("10m")}).data, "subscription/alarm created\n");
  EXPECT_EQ(Run({"apply", "-f", file("10m")}).data, "subscription/alarm unchanged\n");
  EXPECT_EQ(Run({"apply", "-f", file("20m")}).data, "subscription/alarm configured\n");
  const auto shown = Json({"subscription", "get", "alarm"});
  EXPECT_EQ(shown["lateBy"], "1200s");
  EXPECT_EQ(shown["version"], "2");
  const std::string copy =
      Write("copy.yaml", Run({"subscription", "get", "alarm", "-o", "yaml"}).data);
  EXPECT_EQ(Run({"apply", "-f", copy}).data, "subscription/alarm unchanged\n");
  const Said refused = Run({"apply", "-f", file("1ms")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("subscription/alarm: lateBy: "));
}

TEST_F(EscctlApplyTest, DryRunShowsADiffAndWritesNothing) {
  const std::string file = Write("two.yaml", kTwo);
  const Said before = Run({"apply", "-f", file, "--dry-run"});
  EXPECT_EQ(before.exit_code, 0) << before.words;
  EXPECT_THAT(before.data, HasSubstr("+maxConcurrent: \"5\"\n"));
  EXPECT_THAT(before.data, HasSubstr("policy/gentle created (dry run)\n"));
  EXPECT_THAT(before.data, HasSubstr("+payloadText: \"{\\\"hi\\\":1}\"\n"));
  EXPECT_THAT(before.data, HasSubstr("schedule/nightly created (dry run)\n"));
  EXPECT_EQ(Json({"schedule", "list"}).size(), 0u);

  Run({"apply", "-f", file});
  Json({"schedule", "update", "nightly", "--cron", "0 9 * * *"});
  const Said after = Run({"apply", "-f", file, "--dry-run"});
  EXPECT_THAT(after.data, HasSubstr("-cron: \"0 9 * * *\"\n+cron: \"0 3 * * *\"\n"));
  EXPECT_THAT(after.data, HasSubstr("schedule/nightly configured (dry run)\n"));
  EXPECT_THAT(after.data, StartsWith("policy/gentle unchanged (dry run)\n"));
  EXPECT_EQ(Json({"schedule", "get", "nightly"})["cron"], "0 9 * * *");

  // The server refuses it, although nothing would be written.
  Write("two.yaml", "kind: Schedule\nname: x\ncron: 61 * * * *\ntarget: {grpc: {uri: \"h:1\"}}\n");
  const Said refused = Run({"apply", "-f", file, "--dry-run"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.words, HasSubstr("two.yaml: document 1 (line 1): schedule/x: cron: "));
}

TEST_F(EscctlApplyTest, OneErrorNamesItsFieldAndTheOthersGo) {
  const std::string file = Write("some.yaml", absl::StrCat(kTwo, R"(---
kind: Schedule
name: bad
cron: 61 * * * *
eventCount: -1
target: {http: {uri: "ftp://x"}}
---
kind: Schedule
name: typo
cronn: 0 3 * * *
---
kind: Schedule
name: orphan
cron: 0 3 * * *
policy: missing
target: {http: {uri: "http://127.0.0.1:1/"}}
---
kind: [
---
kind: Schedule
name: last
cron: 0 3 * * *
target: {http: {uri: "http://127.0.0.1:1/"}}
)"));
  const Said said = Run({"apply", "-f", file, "--prune", "-l", "team=a"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(said.data, "policy/gentle created\nschedule/nightly created\nschedule/last created\n");
  EXPECT_THAT(said.words, HasSubstr("document 3 (line 14): schedule/bad: cron: "));
  EXPECT_THAT(said.words, HasSubstr("schedule/bad: eventCount: must be from 1 to"));
  EXPECT_THAT(said.words, HasSubstr("schedule/bad: target.http.uri: "));
  EXPECT_THAT(said.words, HasSubstr("document 4 (line 20): schedule/typo: cronn: no such field; "
                                    "did you mean cron?"));
  EXPECT_THAT(said.words, HasSubstr("schedule/orphan: policy: FAILED_PRECONDITION: "
                                    "tenants/default/policies/missing does not exist"));
  EXPECT_THAT(said.words, HasSubstr("document 6 (line 30): line "));
  EXPECT_THAT(said.words, HasSubstr("nothing was pruned"));
}

TEST_F(EscctlApplyTest, PruneDeletesSchedulesOfTheLabelOnly) {
  const std::string uri = receiver_->origin();
  for (const char* name : {"old", "older"}) {
    Json({"schedule", "create", name, "--cron", "0 3 * * *", "--http", uri, "--label", "team=a",
          "--payload", "bye", "--content-type", "text/plain"});
  }
  Json({"schedule", "create", "other", "--cron", "0 3 * * *", "--http", uri, "--label", "team=b"});
  Json({"schedule", "create", "plain", "--cron", "0 3 * * *", "--http", uri});
  const std::string file = Write("two.yaml", kTwo);
  const Said dry = Run({"apply", "-f", file, "--prune", "-l", "team=a", "--dry-run"});
  EXPECT_THAT(dry.data, HasSubstr("-payloadText: \"bye\"\n"));
  EXPECT_THAT(dry.data, HasSubstr("schedule/older pruned (dry run)\n"));
  EXPECT_EQ(Json({"schedule", "list"}).size(), 4u);
  const Said said = Run({"apply", "-f", file, "--prune", "-l", "team=a"});
  EXPECT_EQ(said.exit_code, 0) << said.words;
  EXPECT_EQ(said.data,
            "policy/gentle created\nschedule/nightly created\nschedule/old pruned\n"
            "schedule/older pruned\n");
  EXPECT_EQ(Json({"schedule", "list"}).size(), 3u);

  EXPECT_EQ(Run({"apply", "-f", file, "--prune"}).exit_code, 2);
  EXPECT_EQ(Run({"apply", "-f", file, "-l", "team=a"}).exit_code, 2);
  EXPECT_EQ(Run({"apply", "-f", file, "--prune", "-l", "team"}).exit_code, 2);
  EXPECT_EQ(Run({"apply"}).exit_code, 2);
  EXPECT_EQ(Run({"apply", "-f", folder_ + "/nothing"}).exit_code, 2);
  const std::string empty = Write("empty.yaml", "# nothing\n");
  EXPECT_EQ(Run({"apply", "-f", empty, "--prune", "-l", "team=a"}).exit_code, 2);
  EXPECT_EQ(Json({"schedule", "list"}).size(), 3u);
}

}  // namespace escctl_apply_test
}  // namespace escapement::integration
