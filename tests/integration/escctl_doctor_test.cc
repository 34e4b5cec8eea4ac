// `escctl doctor` against a real platform.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace escctl_doctor_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class EscctlDoctorTest : public EscctlTest {
 protected:
  void SetUp() override {
    EscctlTest::SetUp();
    // The metrics of the platform, on a disk with room: that of this machine may be nearly full.
    // The doctor takes the first sample.
    metrics_.RouteSync("GET", "/metrics", [this](const HttpRequest&) {
      const auto own = HttpGet(platform_->http_address("standalone"), "/metrics");
      return HttpResponse{.status = own.ok() ? own->status : 503,
                          .body = absl::StrCat("escapement_store_disk_free_bytes 1\n"
                                               "escapement_store_disk_size_bytes 2\n",
                                               own.ok() ? own->body : "")};
    });
    ASSERT_TRUE(metrics_.Start().ok());
  }

  std::string Url() { return absl::StrCat("http://127.0.0.1:", metrics_.port()); }

  // Asks until `text` is found. A platform that has just started holds its leases after a second.
  Said AwaitDoctor(const std::vector<std::string>& flags, const std::string& text) {
    std::vector<std::string> command = {"doctor"};
    command.insert(command.end(), flags.begin(), flags.end());
    Said said;
    EXPECT_TRUE(Await([&] {
      said = Run(command);
      return absl::StrContains(said.data + said.words, text);
    })) << said.data
        << said.words;
    return said;
  }

 private:
  HttpServer metrics_{HttpServer::Options()};
};

TEST_F(EscctlDoctorTest, HealthyPlatformHasNoProblem) {
  const Said well = AwaitDoctor({"--metrics-url", Url()}, "nothing is wrong in what was checked");
  EXPECT_EQ(well.exit_code, 0);
  EXPECT_THAT(well.data, Not(ContainsRegex("CRITICAL|WARNING|not checked")));

  // Without processes it says what it has not seen.
  const Said blind = Run({"doctor"});
  EXPECT_EQ(blind.exit_code, 0) << blind.data;
  EXPECT_THAT(blind.data, ContainsRegex("NOTE +not checked +processes: "));
  EXPECT_THAT(blind.data, HasSubstr("escctl doctor --metrics-url URL"));
}

TEST_F(EscctlDoctorTest, EachProblemIsALineWithACommand) {
  // Its port is free again, so connections are refused.
  fixtures::Receipts receipts;
  auto dead = *fixtures::HttpReceiver::Start({}, &receipts);
  const std::string dead_origin = dead->origin();
  dead.reset();
  Json({"schedule", "create", "down", "--cron", "0 0 1 1 *", "--max-attempts", "50", "--http",
        dead_origin + "/hook"});
  Json({"schedule", "trigger", "down", "-n", "500"});
  Json({"event", "create", "reminder-7", "--due", "+0s", "--max-attempts", "1", "--http",
        receiver_->origin() + "/fail/1/status/503/hook"});
  Json({"quota", "set", "default", "--max-schedules", "1"});

  const std::vector<std::string> flags = {"--metrics-url", Url(), "--metrics-url",
                                          "http://127.0.0.1:1"};
  AwaitDoctor(flags, "the target " + dead_origin + " has been down since ");
  AwaitDoctor(flags, "1 event has failed for good, 1 of them in the last 24 hours");
  const Said said = AwaitDoctor(flags, "it has 1 of at most 1 schedules");
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.words, HasSubstr("4 problems found"));
  EXPECT_THAT(said.data, ContainsRegex("WARNING +http://127.0.0.1:1 +it does not answer: "));
  EXPECT_THAT(said.data, ContainsRegex("escctl --tenant default target reset [0-9a-f]{32} "));
  EXPECT_THAT(said.data, HasSubstr("the newest: reminder-7: "));
  EXPECT_THAT(said.data, HasSubstr("escctl quota set default --max-schedules NUMBER"));
  EXPECT_THAT(said.data, HasSubstr("docs/runbooks/EscapementTargetDown.md"));

  const Said json = Run({"doctor", "-o", "json", "--metrics-url", Url()});
  EXPECT_EQ(json.exit_code, 1);
  const auto findings = nlohmann::json::parse(json.data, nullptr, false);
  ASSERT_GE(findings.size(), 3u) << json.data;
  EXPECT_EQ(findings[0]["severity"], "WARNING");
}

// Problems of tenants are no matter of failover.
TEST_F(EscctlDoctorTest, FailoverNeedsMoreThanOneProcess) {
  Json({"quota", "set", "default", "--max-schedules", "1"});
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "--http", receiver_->origin() + "/hook"});
  const Said said = Run({"doctor", "--failover", "2"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.data, ContainsRegex("CRITICAL +store +it is one process, so no other can take"));
  EXPECT_THAT(said.words, HasSubstr("1 problem found"));
  EXPECT_EQ(Run({"doctor", "--failover", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"doctor", "--failover", "2", "--metrics-url", Url()}).exit_code, 2);
}

TEST_F(EscctlDoctorTest, PlatformThatIsGoneIsAFinding) {
  const std::string url = absl::StrCat("http://", platform_->http_address("standalone"));
  platform_->Kill("standalone");
  const Said said = Run({"--timeout", "10", "doctor", "--metrics-url", url});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.data, ContainsRegex("CRITICAL +127[.0-9:]+ +no master answers: "));
  EXPECT_THAT(said.data, HasSubstr(url + " refuses connections"));
  EXPECT_EQ(Run({"doctor", "--metrics-url", "127.0.0.1:1"}).exit_code, 2);
}

}  // namespace escctl_doctor_test
}  // namespace escapement::integration
