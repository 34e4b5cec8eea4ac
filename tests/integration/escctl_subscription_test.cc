// escctl against a real platform: subscriptions and their messages.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace escctl_subscription_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class EscctlSubscriptionTest : public EscctlTest {
 protected:
  EscctlSubscriptionTest()
      : inbox_(*fixtures::HttpReceiver::Start({.kept_requests_max = 100}, &messages_)) {}

  // Waits for the `number`-th message, from 1.
  nlohmann::json Message(size_t number) {
    inbox_->AwaitRequests(number);
    return nlohmann::json::parse(inbox_->KeptRequests().at(number - 1).second, nullptr, false);
  }
  std::string Inbox() const { return inbox_->origin() + "/alarm"; }
  static std::string IdOf(const std::string& name) { return name.substr(name.rfind('/') + 1); }

  fixtures::Receipts messages_;
  std::unique_ptr<fixtures::HttpReceiver> inbox_;
};

TEST_F(EscctlSubscriptionTest, SendsAFailureOnceAndItsEnd) {
  const auto made = Json({"subscription", "create", "failures", "--schedule", "nightly", "--kind",
                          "missed", "--kind", "failed", "--late-by", "10m", "--http", Inbox()});
  EXPECT_EQ(made["filter"], R"(name = "nightly")");
  EXPECT_EQ(made["kinds"], nlohmann::json({"FAILED", "MISSED"}));
  EXPECT_EQ(made["lateBy"], "600s");
  for (const char* id : {"nightly", "other"}) {
    Json({"schedule", "create", id, "--every", "1h", "--anchor", "+3s", "--max-attempts", "1",
          "--http", receiver_->origin() + "/status/503/hook"});
  }

  const auto first = Message(1);
  const std::string run = Json({"schedule", "runs", "nightly"})[0]["name"];
  EXPECT_EQ(first["subscription"], "tenants/default/subscriptions/failures");
  ASSERT_EQ(first.value("problems", nlohmann::json::array()).size(), 1u) << first;
  EXPECT_EQ(first.value("ended", nlohmann::json::array()).size(), 0u) << first;
  const auto& problem = first["problems"][0];
  EXPECT_EQ(problem["kind"], "FAILED");
  EXPECT_EQ(problem["schedule"], "tenants/default/schedules/nightly");
  EXPECT_EQ(problem["count"], "1");
  EXPECT_EQ(problem["resource"], run);
  EXPECT_THAT(problem["detail"].get<std::string>(), HasSubstr("503"));
  EXPECT_THAT(first["title"].get<std::string>(), HasSubstr("nightly"));
  EXPECT_THAT(first["text"].get<std::string>(), HasSubstr("503"));

  // The message is written together with the problem.
  const auto shown = Json({"subscription", "get", "failures"});
  EXPECT_EQ(shown["problemCount"], "1");
  ASSERT_EQ(shown["problems"].size(), 1u);
  EXPECT_TRUE(shown["problems"][0].contains("notifyTime")) << shown;
  const std::string message = shown["lastEvent"];
  EXPECT_THAT(message, StartsWith("tenants/default/events/notice-"));
  const Said table = Run({"subscription", "get", "failures"});
  EXPECT_THAT(table.data, ContainsRegex("checked up to [^ ]+; problems: 1; last message: notice-"));
  EXPECT_THAT(table.data, ContainsRegex(absl::StrCat("\nFAILED +nightly +[^ ]+ +[^ ]+ +1 +2[^ ]+ +",
                                                     IdOf(run), " +[^\n]*503")));

  // It ends when a later run succeeds.
  Json({"schedule", "update", "nightly", "--http", receiver_->origin() + "/hook"});
  Json({"schedule", "trigger", "nightly"});
  const auto second = Message(2);
  EXPECT_EQ(second.value("problems", nlohmann::json::array()).size(), 0u) << second;
  ASSERT_EQ(second.value("ended", nlohmann::json::array()).size(), 1u) << second;
  EXPECT_EQ(second["ended"][0]["kind"], "FAILED");
  EXPECT_EQ(second["ended"][0]["schedule"], "tenants/default/schedules/nightly");
  const Said ended = Run({"subscription", "get", "failures"});
  EXPECT_THAT(ended.data, HasSubstr("; problems: 0; "));
  EXPECT_THAT(ended.data, Not(HasSubstr("NOTIFIED")));
  EXPECT_EQ(messages_.Stats().distinct, 2u);
}

TEST_F(EscctlSubscriptionTest, SubscriptionIsChangedTestedAndDeleted) {
  Json({"subscription", "create", "billing", "--label", "team=billing", "--label", "app.io/a=b c",
        "--display-name", "On call", "--http", Inbox()});
  EXPECT_THAT(Run({"subscription", "list"}).data,
              ContainsRegex("subscriptions/billing +labels.\"team\" = \"billing\" AND "
                            "labels.\"app.io/a\" = \"b c\" +all +300s +http +0 +1\n"));
  const auto changed = Json({"subscription", "update", "billing", "--filter", "", "--kind",
                             "at-risk", "--late-by", "1h"});
  EXPECT_FALSE(changed.contains("filter"));
  EXPECT_EQ(changed["kinds"], nlohmann::json({"AT_RISK"}));
  EXPECT_EQ(changed["lateBy"], "3600s");
  EXPECT_EQ(changed["displayName"], "On call");
  const auto cleared = Json({"subscription", "update", "billing", "--kind", "", "--late-by", "",
                             "--etag", changed["etag"].get<std::string>()});
  EXPECT_FALSE(cleared.contains("kinds"));
  EXPECT_EQ(cleared["lateBy"], "300s");

  EXPECT_THAT(Run({"subscription", "test", "billing", "--validate-only"}).words,
              HasSubstr("nothing was changed"));
  const Said tested = Run({"subscription", "test", "billing"});
  EXPECT_EQ(tested.exit_code, 0) << tested.words;
  EXPECT_THAT(tested.data, StartsWith("MESSAGE\ntenants/default/events/notice-"));
  const auto message = Message(1);
  EXPECT_EQ(message["subscription"], "tenants/default/subscriptions/billing");
  EXPECT_EQ(message.value("problems", nlohmann::json::array()).size(), 0u) << message;
  const std::vector<std::string> lines = absl::StrSplit(tested.data, '\n');
  const std::string id = IdOf(lines.at(1));
  EXPECT_THAT(tested.words, HasSubstr("escctl event get " + id));
  EXPECT_TRUE(Await([&] {
    return Json({"event", "get", id}).value("outcome", "") == "SUCCEEDED";
  }));
  EXPECT_EQ(inbox_->requests(), 1u);

  const Said filter =
      Run({"subscription", "create", "x", "--filter", "colour = red", "--http", Inbox()});
  EXPECT_EQ(filter.exit_code, 1);
  EXPECT_THAT(filter.words, HasSubstr("--filter: "));
  EXPECT_THAT(Run({"subscription", "create", "x", "--late-by", "1ms", "--http", Inbox()}).words,
              HasSubstr("--late-by: "));
  EXPECT_THAT(Run({"subscription", "create", "x"}).words, HasSubstr("target"));
  EXPECT_EQ(Run({"subscription", "create", "x", "--kind", "slow", "--http", Inbox()}).exit_code, 2);
  EXPECT_EQ(Run({"subscription", "update", "billing"}).exit_code, 2);
  EXPECT_EQ(Run({"subscription", "delete", "billing", "--etag", "\"0\""}).exit_code, 1);
  EXPECT_EQ(Run({"subscription", "delete", "billing"}).exit_code, 0);
  EXPECT_EQ(Run({"subscription", "get", "billing"}).exit_code, 3);
  EXPECT_EQ(Run({"subscription", "test", "billing"}).exit_code, 3);
}

}  // namespace escctl_subscription_test
}  // namespace escapement::integration
