#include "tools/escctl/apply/manifest.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::escctl {
namespace manifest_test {

constexpr char kParent[] = "tenants/default";

std::string ErrorsOf(const Resource& resource) {
  std::string text;
  for (const FieldError& error : resource.errors) text += error.field + ": " + error.problem + "\n";
  return text;
}

TEST(ManifestTest, ReadsEveryKindOfFieldFromYaml) {
  const Manifest manifest = ReadManifest(R"(# a comment
---
kind: ThrottlePolicy
name: gentle
maxConcurrent: 5
maxPerSecond: 0.5
holdTimeout: 1h30m
onExpiry: HOLD
---
kind: Schedule
name: nightly
cronFields: {minute: 0, hour: "3"}
times: []
labels: {team: a, size: 5}
timeZone: Europe/Berlin
start_time: 2026-12-24T18:00:00Z
exclusions: ["* * 25 12 *"]
policy: gentle
retryPolicy: {keep: true, maxAttempts: 3, maxBackoff: 90s}
target: {http: {uri: "http://x/"}}
payloadText: '{"hi":1}'
etag: stale
)",
                                         kParent);
  ASSERT_EQ(manifest.resources.size(), 2u);
  EXPECT_EQ(ErrorsOf(manifest.resources[0]), "");
  EXPECT_EQ(std::get<v1::ThrottlePolicy>(manifest.resources[0].message).ShortDebugString(),
            "name: \"tenants/default/policies/gentle\" max_concurrent: 5 max_per_second: 0.5 "
            "hold_timeout { seconds: 5400 } on_expiry: HOLD");
  const Resource& second = manifest.resources[1];
  EXPECT_EQ(ErrorsOf(second), "");
  EXPECT_EQ(second.place, "document 2 (line 10)");
  EXPECT_EQ(second.title, "schedule/nightly");
  const auto& schedule = std::get<v1::Schedule>(second.message);
  EXPECT_EQ(schedule.cron_fields().minute(), "0");
  EXPECT_EQ(schedule.labels().at("size"), "5");
  EXPECT_EQ(schedule.start_time().seconds(), 1798135200);
  EXPECT_EQ(schedule.exclusions(0), "* * 25 12 *");
  EXPECT_EQ(schedule.policy(), "tenants/default/policies/gentle");
  EXPECT_TRUE(schedule.retry_policy().keep());
  EXPECT_EQ(schedule.payload(), "{\"hi\":1}");
  EXPECT_EQ(schedule.etag(), "");
}

TEST(ManifestTest, ReadsAJsonArrayAndFullNames) {
  const Manifest manifest = ReadManifest(
      R"([{"kind":"Schedule","name":"tenants/t/schedules/s","cron":"* * * * *","policy":"p",
           "eventCount":3,"payload":"e30=","displayName":"\u00e4\/"},
          {"kind":"ThrottlePolicy","name":"p","burst":"7"}])",
      kParent);
  ASSERT_EQ(manifest.resources.size(), 2u);
  EXPECT_EQ(ErrorsOf(manifest.resources[0]), "");
  EXPECT_EQ(manifest.resources[0].place, "document 1, item 1");
  const auto& schedule = std::get<v1::Schedule>(manifest.resources[0].message);
  EXPECT_EQ(schedule.name(), "tenants/t/schedules/s");
  EXPECT_EQ(schedule.policy(), "tenants/t/policies/p");
  EXPECT_EQ(schedule.event_count(), 3);
  EXPECT_EQ(schedule.payload(), "{}");
  EXPECT_EQ(schedule.display_name(), "\xc3\xa4/");
  EXPECT_EQ(std::get<v1::ThrottlePolicy>(manifest.resources[1].message).burst(), 7);
}

TEST(ManifestTest, PoliciesOfLimitsHaveTheirFullNames) {
  const Manifest manifest = ReadManifest(
      "kind: Schedule\nname: s\nlimits: [{policy: p, weight: 2}, {policy: "
      "tenants/t/policies/q, policyKey: acme}]\n",
      kParent);
  ASSERT_EQ(ErrorsOf(manifest.resources.at(0)), "");
  const auto& schedule = std::get<v1::Schedule>(manifest.resources[0].message);
  ASSERT_EQ(schedule.limits_size(), 2);
  EXPECT_EQ(schedule.limits(0).policy(), "tenants/default/policies/p");
  EXPECT_EQ(schedule.limits(0).weight(), 2);
  EXPECT_EQ(schedule.limits(1).policy(), "tenants/t/policies/q");
  EXPECT_EQ(schedule.limits(1).policy_key(), "acme");
}

TEST(ManifestTest, CalendarsAreResourcesAndSchedulesNameThem) {
  const Manifest manifest = ReadManifest(
      "kind: Calendar\nname: off\nrules: ['* * SAT,SUN']\nversion: 7\nnextDays: [2027-01-02]\n---\n"
      "kind: Schedule\nname: s\ncron: 0 9 L * *\ncalendar: off\nonExcluded: PREVIOUS\n---\n"
      "name: tenants/t/calendars/b\ncalendars: [off]\n",
      kParent);
  ASSERT_EQ(manifest.resources.size(), 3u);
  for (const Resource& resource : manifest.resources) EXPECT_EQ(ErrorsOf(resource), "");
  EXPECT_EQ(std::get<v1::Calendar>(manifest.resources[0].message).ShortDebugString(),
            absl::StrCat("name: \"", kParent, "/calendars/off\" rules: \"* * SAT,SUN\""));
  EXPECT_EQ(std::get<v1::Schedule>(manifest.resources[1].message).calendar(),
            absl::StrCat(kParent, "/calendars/off"));
  EXPECT_EQ(manifest.resources[2].title, "calendar/b");
}

TEST(ManifestTest, SubscriptionsAreResources) {
  const Manifest manifest = ReadManifest(
      "kind: Subscription\nname: failures\nfilter: labels.team = a\nkinds: [FAILED, AT_RISK]\n"
      "lateBy: 10m\ntarget: {http: {uri: \"http://x/\"}}\netag: stale\nversion: 7\n"
      "checkTime: 2026-12-24T18:00:00Z\nproblemCount: 1\nproblems: [{kind: FAILED, count: 2}]\n"
      "lastEvent: tenants/default/events/notice-1\nlastEventTime: 2026-12-24T18:00:00Z\n---\n"
      "name: tenants/t/subscriptions/b\n---\nkind: Subscription\nname: c\nkinds: [SLOW]\n",
      kParent);
  ASSERT_EQ(manifest.resources.size(), 3u);
  EXPECT_EQ(ErrorsOf(manifest.resources[0]), "");
  EXPECT_EQ(std::get<v1::Subscription>(manifest.resources[0].message).ShortDebugString(),
            "name: \"tenants/default/subscriptions/failures\" filter: \"labels.team = a\" "
            "kinds: FAILED kinds: AT_RISK late_by { seconds: 600 } "
            "target { http { uri: \"http://x/\" } }");
  EXPECT_EQ(ErrorsOf(manifest.resources[1]), "");
  EXPECT_EQ(manifest.resources[1].title, "subscription/b");
  EXPECT_EQ(ErrorsOf(manifest.resources[2]),
            "kinds[0]: 'SLOW' is not one of FAILED, LATE, MISSED, PAUSED, AT_RISK\n");
}

TEST(ManifestTest, NamesTheFieldOfEachError) {
  const auto errors = [](const std::string& fields) {
    return ErrorsOf(ReadManifest("kind: Schedule\nname: s\n" + fields, kParent).resources.at(0));
  };
  EXPECT_EQ(errors("eventCont: 3"), "eventCont: no such field; did you mean eventCount?\n");
  EXPECT_EQ(errors("target: {http: {url: x}}"),
            "target.http.url: no such field; did you mean uri?\n");
  EXPECT_EQ(errors("eventCount: many"), "eventCount: 'many' is not a whole number\n");
  EXPECT_EQ(errors("overlapPolicy: QUEUE"),
            "overlapPolicy: 'QUEUE' is not one of ALLOW, SKIP, BUFFER_ONE, CANCEL_PREVIOUS\n");
  EXPECT_EQ(errors("jitter: soon"), "jitter: 'soon' is not a duration such as 90s or 1h30m\n");
  EXPECT_EQ(errors("times: [later]"),
            "times[0]: 'later' is not a time such as 2026-12-24T18:00:00Z\n");
  EXPECT_EQ(errors("payload: '{}'"),
            "payload: is not base64; to give it as text, use payloadText\n");
  EXPECT_EQ(errors("payload: e30=\npayloadText: x"),
            "payloadText: set only one of payload, payloadText and payloadJson\n");
  EXPECT_EQ(errors("payloadText: x\npayloadJson: x"),
            "payloadJson: set only one of payload, payloadText and payloadJson\n");
  EXPECT_EQ(errors("labels: [a]"), "labels: must hold pairs, as in \"key: value\"\n");
  EXPECT_EQ(errors("labels: {a: [b]}"), "labels[a]: must be a single value\n");
  EXPECT_EQ(errors("exclusions: x"), "exclusions: must be a list\n");
  EXPECT_EQ(errors("cron: x\ninterval: {every: 5s}"),
            "interval: set only one of cron, cronFields, interval\n");
  EXPECT_EQ(errors("policy: a/b"),
            "policy: 'a/b' must be a short name or tenants/{tenant}/policies/{name}\n");
  EXPECT_EQ(errors("limits: [{policy: p}, {policy: a/b}]"),
            "limits[1].policy: 'a/b' must be a short name or tenants/{tenant}/policies/{name}\n");
}

TEST(ManifestTest, PayloadJsonIsWrittenAsJson) {
  const Manifest manifest = ReadManifest(
      "kind: Schedule\nname: s\ncron: '@daily'\ntarget: {http: {uri: 'http://x/'}}\n"
      "payloadJson: {hi: [1, true]}\n",
      kParent);
  ASSERT_EQ(manifest.resources.size(), 1u);
  EXPECT_EQ(ErrorsOf(manifest.resources[0]), "");
  EXPECT_EQ(std::get<v1::Schedule>(manifest.resources[0].message).payload(), R"({"hi":[1,true]})");
}

TEST(ManifestTest, WarnsOfAPauseThatIsNotApplied) {
  const Manifest manifest =
      ReadManifest("kind: Schedule\nname: s\nstate: PAUSED\nversion: 3\n", kParent);
  EXPECT_EQ(ErrorsOf(manifest.resources.at(0)), "");
  EXPECT_EQ(
      manifest.resources[0].warnings,
      (std::vector<FieldError>{{"state", "is ignored here; to pause it: escctl schedule pause"}}));
}

TEST(ManifestTest, WarnsOfOverridesThatAreNotApplied) {
  const Manifest manifest = ReadManifest(
      "kind: ThrottlePolicy\nname: p\nmaxConcurrent: 5\n"
      "overrides:\n- maxConcurrent: 1\n  reason: drain\n",
      kParent);
  EXPECT_EQ(ErrorsOf(manifest.resources.at(0)), "");
  EXPECT_EQ(manifest.resources[0].warnings,
            (std::vector<FieldError>{
                {"overrides", "are ignored here; to make one: escctl policy override"}}));
  EXPECT_EQ(std::get<v1::ThrottlePolicy>(manifest.resources[0].message).overrides_size(), 0);
}

TEST(ManifestTest, BrokenDocumentLeavesTheOthers) {
  const Manifest manifest = ReadManifest(
      "kind: Schedule\nname: [\n---\nkind: Job\nname: x\n---\nname: x\n---\nkind: Schedule\n---\n"
      "kind: Schedule\nname: a\n--- {kind: Schedule, name: a}\n---\njust text\n"
      "---\nkind: Schedule\nname: b\ncron: x\ncron: y\n",
      kParent);
  ASSERT_EQ(manifest.resources.size(), 8u);
  EXPECT_EQ(ErrorsOf(manifest.resources[0]).substr(0, 9), ": line 3:");
  EXPECT_EQ(ErrorsOf(manifest.resources[1]),
            "kind: 'Job' must be Schedule, ThrottlePolicy, Calendar or Subscription\n");
  EXPECT_EQ(ErrorsOf(manifest.resources[2]),
            "kind: is missing; it must be Schedule, ThrottlePolicy, Calendar or Subscription\n");
  EXPECT_EQ(ErrorsOf(manifest.resources[3]),
            "name: is missing; every resource needs its own name\n");
  EXPECT_EQ(ErrorsOf(manifest.resources[4]), "");
  EXPECT_EQ(ErrorsOf(manifest.resources[5]), "name: stands in this file twice\n");
  EXPECT_EQ(manifest.resources[5].place, "document 6 (line 13)");
  EXPECT_EQ(ErrorsOf(manifest.resources[6]), ": must hold fields, as in \"kind: Schedule\"\n");
  EXPECT_EQ(ErrorsOf(manifest.resources[7]), ": line 20: 'cron' stands twice\n");
  EXPECT_TRUE(ReadManifest("# nothing\n---\n\n---\n", kParent).resources.empty());
}

TEST(ManifestTest, AliasesOfAliasesAreBounded) {
  std::string file = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string former = "*a" + std::to_string(i - 1);
    file += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + former;
    for (int k = 1; k < 10; ++k) file += ", " + former;
    file += "]\n";
  }
  const Manifest manifest = ReadManifest(file, kParent);
  ASSERT_EQ(manifest.resources.size(), 1u);
  EXPECT_NE(ErrorsOf(manifest.resources[0]).find("too many values"), std::string::npos);
}

TEST(ManifestTest, YamlOfAResourceReadsBack) {
  v1::Schedule schedule;
  schedule.set_name("tenants/default/schedules/s");
  schedule.set_cron("0 3 * * *");
  schedule.set_event_count(5);
  schedule.set_payload("{\"a\": \"b\"}");
  schedule.mutable_jitter()->set_seconds(90);
  (*schedule.mutable_labels())["a: b"] = "true";
  for (const std::string& payload : {std::string("{\"a\": \"b\"}"), std::string("\x00\xff", 2)}) {
    schedule.set_payload(payload);
    const Manifest manifest = ReadManifest(ManifestYaml(schedule), kParent);
    ASSERT_EQ(manifest.resources.size(), 1u);
    EXPECT_EQ(ErrorsOf(manifest.resources[0]), "");
    EXPECT_EQ(std::get<v1::Schedule>(manifest.resources[0].message).ShortDebugString(),
              schedule.ShortDebugString());
  }
}

TEST(ManifestTest, ServerFieldsAreNamedAsInTheFile) {
  EXPECT_EQ(FileFieldName("schedule.event_count"), "eventCount");
  EXPECT_EQ(FileFieldName("policy.max_per_second"), "maxPerSecond");
  EXPECT_EQ(FileFieldName("schedule.target.http.headers[x_y]"), "target.http.headers[x_y]");
  EXPECT_EQ(FileFieldName("calendar.except_dates[1]"), "exceptDates[1]");
  EXPECT_EQ(FileFieldName("subscription.late_by"), "lateBy");
  EXPECT_EQ(FileFieldName("schedule_id"), "scheduleId");
}

}  // namespace manifest_test
}  // namespace escapement::escctl
