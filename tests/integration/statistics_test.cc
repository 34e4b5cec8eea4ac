// Statistics of a whole platform, beside what the receiver has seen.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace statistics_test {

using nlohmann::json;

class StatisticsTest : public EscctlTest {
 protected:
  void SetUp() override {
    platform_ =
        std::make_unique<Platform>(Platform::Options{.bin = BuiltFolder(), .folder = folder_});
    const absl::Status status =
        platform_->Start({"store", "master", "emitter", "handler", "token_manager"});
    ASSERT_TRUE(status.ok()) << status;
    environment_ = {"ESCAPEMENT_SERVER=" + platform_->grpc_address("master"),
                    "ESCAPEMENT_CONFIG_DIR=" + folder_ + "/config"};
    receiver_ = *fixtures::HttpReceiver::Start({}, &receipts_);
  }

  // A schedule that only fires if it is triggered, and fires once.
  void Fire(const std::string& id, int events, const std::string& path,
            const std::vector<std::string>& flags = {}) {
    std::vector<std::string> create = {"schedule",
                                       "create",
                                       id,
                                       "--cron",
                                       "0 0 1 1 *",
                                       "-n",
                                       absl::StrCat(events),
                                       "--http",
                                       receiver_->origin() + path};
    create.insert(create.end(), flags.begin(), flags.end());
    Json(create);
    Json({"schedule", "trigger", id});
  }
  json Steps(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"statistics", "--hours", "2"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Json(arguments)["statistics"];
  }
  static int64_t Value(const json& step, const std::string& field) {
    return std::stoll(step.value(field, "0"));
  }
  static int64_t Sum(const json& steps, const std::string& field) {
    int64_t sum = 0;
    for (const json& step : steps) sum += Value(step, field);
    return sum;
  }
  static int64_t Most(const json& steps, const std::string& field) {
    int64_t most = 0;
    for (const json& step : steps) most = std::max(most, Value(step, field));
    return most;
  }
};

TEST_F(StatisticsTest, CountsEqualWhatTheReceiverHasSeen) {
  Json({"policy", "create", "wide", "-m", "20"});
  Json({"policy", "create", "one", "-m", "1"});
  Fire("plain", 200, "/plain");
  Fire("flaky", 20, "/fail/1/flaky", {"--min-backoff", "100ms"});
  Fire("failing", 5, "/status/503/failing", {"--max-attempts", "2", "--min-backoff", "100ms"});
  Fire("limited", 50, "/limited", {"--policy", "wide", "--completion", "on-delivery"});
  // The consumer never gives the token back.
  Fire("held", 3, "/held", {"--policy", "one"});
  constexpr int64_t kAttempts = 200 + 2 * 20 + 2 * 5 + 50 + 1;
  ASSERT_TRUE(Await([&] { return receipts_.Stats().received == kAttempts; }));
  ASSERT_TRUE(Await([&] { return Json({"deadletter", "list"}).size() == 5; }));

  // The token manager takes a sample every ten seconds.
  json of_policy;
  EXPECT_TRUE(Await([&] {
    of_policy = Steps({"--policy", "one"});
    return Most(of_policy, "heldCount") == 1;
  })) << of_policy;
  EXPECT_EQ(Most(of_policy, "maxConcurrent"), 1);
  EXPECT_EQ(Most(of_policy, "waitingCount"), 2);
  EXPECT_GE(of_policy.size(), 120u) << "each minute, also those in which nothing happened";

  // The handler writes the rest when it ends.
  EXPECT_EQ(*platform_->Terminate("handler"), 0);
  json all;
  EXPECT_TRUE(Await([&] {
    all = Steps({});
    return Sum(all, "succeededCount") == 200 + 20 + 50;
  })) << all;
  const fixtures::ReceiptStats seen = receipts_.Stats();
  EXPECT_EQ(Sum(all, "attemptCount"), static_cast<int64_t>(seen.received));
  EXPECT_EQ(Sum(all, "errorCount"), static_cast<int64_t>(seen.received - seen.accepted));
  EXPECT_EQ(Sum(all, "dueCount"), static_cast<int64_t>(seen.distinct));
  EXPECT_EQ(Sum(all, "failedCount"), 5);
  EXPECT_EQ(Sum(all, "otherCount"), 0);

  const std::string target = Json({"target", "list"})[0]["name"];
  const json of_target = Steps({"--target", target, "--step", "10m"});
  EXPECT_EQ(Sum(of_target, "attemptCount"), static_cast<int64_t>(seen.received));
  EXPECT_EQ(Sum(of_target, "errorCount"), static_cast<int64_t>(seen.received - seen.accepted));
  EXPECT_EQ(Sum(of_target, "lateCount"), Sum(all, "lateCount"));

  EXPECT_EQ(Run({"statistics", "--step", "90s"}).exit_code, 1);
  EXPECT_EQ(Run({"statistics", "--hours", "49"}).exit_code, 2);
  EXPECT_NE(Run({"statistics"}).data.find("SUCCEEDED"), std::string::npos);
}

}  // namespace statistics_test
}  // namespace escapement::integration
