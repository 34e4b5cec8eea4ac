// Targets that are down or gone, through a whole platform.

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace down_targets_test {

using nlohmann::json;

class DownTargetsTest : public EscctlTest {
 protected:
  // A schedule that only fires if it is triggered.
  void MakeSchedule(const std::string& id, const std::string& uri) {
    Json({"schedule", "create", id, "--cron", "0 0 1 1 *", "--max-attempts", "50", "--max-backoff",
          "2s", "--http", uri});
  }
  json RunOf(const std::string& id) { return Json({"schedule", "runs", id, "--limit", "1"}); }
  // The status of the endpoint, as escctl lists it. Null if it is not listed.
  json Target(const std::string& endpoint) {
    json found;
    const json listed = Json({"target", "list"});
    for (const json& target : listed.is_array() ? listed : json::array({listed})) {
      if (target.is_object() && target.value("endpoint", "") == endpoint) found = target;
    }
    return found;
  }
  std::string Metrics() { return HttpGet(platform_->http_address("standalone"), "/metrics")->body; }
};

TEST_F(DownTargetsTest, DeadTargetIsShownAndDoesNotDelayAHealthyOne) {
  // Its port is free again, so connections are refused.
  fixtures::Receipts revived_receipts;
  auto dead = *fixtures::HttpReceiver::Start({}, &revived_receipts);
  const std::string dead_origin = dead->origin();
  const int dead_port = dead->port();
  dead.reset();
  MakeSchedule("dead", dead_origin + "/hook");
  MakeSchedule("healthy", receiver_->origin() + "/hook");
  Json({"schedule", "trigger", "dead", "-n", "5000"});
  ASSERT_TRUE(Await([&] {
    const json target = Target(dead_origin);
    return target.is_object() && target["state"] != "CLOSED";
  })) << Json({"target", "list"});
  json target = Target(dead_origin);
  EXPECT_EQ(target["transport"], "http");
  EXPECT_FALSE(target["lastError"].get<std::string>().empty());
  EXPECT_FALSE(target["downSinceTime"].get<std::string>().empty());
  EXPECT_EQ(target["handlers"].size(), 1u);
  EXPECT_EQ(Json({"target", "get", target["name"]})["name"], target["name"]);
  EXPECT_TRUE(absl::StrContains(Metrics(),
                                "escapement_handler_breaker_openings_total{transport=\"http\"}"));
  EXPECT_FALSE(absl::StrContains(Metrics(), absl::StrCat(":", dead_port, "\"")))
      << "endpoints are not labels";

  // Beside 5,000 events that wait for the dead target, all of these arrive.
  Json({"schedule", "trigger", "healthy", "-n", "500"});
  EXPECT_TRUE(Await([&] { return receipts_.Stats().distinct == 500; }));
  EXPECT_TRUE(Await([&] { return Target(receiver_->origin()).is_object(); }));
  target = Target(receiver_->origin());
  EXPECT_EQ(target["state"], "CLOSED");
  EXPECT_EQ(target.value("errorRate", 0.0), 0);
  EXPECT_EQ(revived_receipts.Stats().received, 0u);

  // The target is back, and a probe finds it.
  const auto revived = fixtures::HttpReceiver::Start({.port = dead_port}, &revived_receipts);
  ASSERT_TRUE(revived.ok()) << revived.status();
  EXPECT_TRUE(Await([&] { return revived_receipts.Stats().distinct == 5000; }))
      << revived_receipts.Stats().distinct << " " << Json({"target", "list"});
  EXPECT_TRUE(Await([&] { return Target(dead_origin)["state"] == "CLOSED"; }));
}

TEST_F(DownTargetsTest, GoneTargetPausesItsSchedule) {
  MakeSchedule("gone", receiver_->origin() + "/status/410");
  Json({"schedule", "trigger", "gone", "-n", "3"});
  json schedule;
  EXPECT_TRUE(Await([&] {
    schedule = Json({"schedule", "get", "gone"});
    return schedule["state"] == "PAUSED";
  })) << schedule;
  EXPECT_EQ(schedule["pauseReason"], "the target answered 410 Gone");
  EXPECT_TRUE(Await([&] {
    const json run = RunOf("gone");
    return absl::StrContains(run.dump(), "\"failedCount\":\"3\"");
  })) << RunOf("gone");
  EXPECT_EQ(receipts_.Stats().received, 3u) << "one attempt each";
  EXPECT_TRUE(absl::StrContains(Json({"audit", "list", "--filter", "principal = platform"}).dump(),
                                "PauseSchedule"));

  // A schedule that was resumed in vain is paused again.
  Json({"schedule", "resume", "gone"});
  Json({"schedule", "trigger", "gone"});
  EXPECT_TRUE(Await([&] { return receipts_.Stats().received == 4; }));
  EXPECT_TRUE(Await([&] { return Json({"schedule", "get", "gone"})["state"] == "PAUSED"; }));
}

TEST_F(DownTargetsTest, OneOffEventOfAGoneTargetFails) {
  Json({"event", "create", "once", "--due", "+0s", "--http", receiver_->origin() + "/status/410"});
  json event;
  EXPECT_TRUE(Await([&] {
    event = Json({"event", "get", "once"});
    return event["state"] == "ENDED";
  })) << event;
  EXPECT_EQ(event["outcome"], "FAILED");
  EXPECT_TRUE(absl::StrContains(event["reason"].get<std::string>(), "410"));
  EXPECT_EQ(receipts_.Stats().received, 1u);
}

}  // namespace down_targets_test
}  // namespace escapement::integration
