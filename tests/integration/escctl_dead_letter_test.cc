// escctl against a real platform: dead letters and operations.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace escctl_dead_letter_test {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EscctlDeadLetterTest : public EscctlTest {
 protected:
  // Repeats the command until the list that it prints has `size` items.
  nlohmann::json AwaitList(const std::vector<std::string>& arguments, size_t size) {
    nlohmann::json list;
    const auto complete = [&] {
      list = Json(arguments);
      return list.size() == size;
    };
    EXPECT_TRUE(Await(complete)) << "not " << size << " items: " << list;
    return list;
  }
  nlohmann::json AwaitEnd(const std::string& operation) {
    nlohmann::json shown;
    const auto ended = [&] {
      shown = Json({"operation", "get", operation});
      return shown["state"] != "RUNNING";
    };
    EXPECT_TRUE(Await(ended)) << "still running: " << shown;
    return shown;
  }
  // The first attempt of an event fails, and there is no other.
  std::string Target() { return receiver_->origin() + "/fail/1/status/503/hook"; }
};

TEST_F(EscctlDeadLetterTest, RedrivesOneManyAndARun) {
  for (const char* id : {"a", "b", "c"}) {
    Json({"event", "create", id, "--due", "+0s", "--http", Target(), "--max-attempts", "1"});
  }
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "--http", Target(), "--max-attempts", "1",
        "-n", "4"});
  const auto run = Json({"schedule", "trigger", "s"});
  AwaitList({"deadletter", "list"}, 7);
  const auto listed = Json({"deadletter", "list", "--filter", "event_id = b AND reason : \"503\""});
  ASSERT_EQ(listed.size(), 1u) << listed;
  const std::string name = listed[0]["name"];
  EXPECT_THAT(name, EndsWith("-b"));
  EXPECT_EQ(listed[0]["event"], "tenants/default/events/b");
  const std::string id = name.substr(name.rfind('/') + 1);
  EXPECT_EQ(Json({"deadletter", "get", id})["name"], name);

  // One, once.
  const auto event = Json({"deadletter", "redrive", id});
  EXPECT_EQ(event["eventId"], "b");
  EXPECT_EQ(event["redriveCount"], 1);
  const Said again = Run({"deadletter", "redrive", id});
  EXPECT_EQ(again.exit_code, 3);
  EXPECT_THAT(again.words, HasSubstr("NOT_FOUND"));

  // All of a run.
  const std::string run_name = run["name"];
  const auto of_run = Json({"run", "redrive", run_name});
  EXPECT_EQ(of_run["run"], run_name);
  EXPECT_EQ(AwaitEnd(of_run["name"])["doneCount"], "4");
  AwaitList({"deadletter", "list"}, 2);

  // By a filter, at a rate; and the table.
  const Said many =
      Run({"deadletter", "redrive", "--filter", "event_id = a", "--max-per-second", "100"});
  EXPECT_EQ(many.exit_code, 0) << many.words;
  EXPECT_THAT(many.data, StartsWith("OPERATION "));
  EXPECT_THAT(many.data, HasSubstr("100/s"));
  AwaitList({"deadletter", "list"}, 1);
  const auto operations = AwaitList({"operation", "list", "--filter", "state = SUCCEEDED"}, 2);
  EXPECT_EQ(operations[0]["filter"], "event_id = a");

  // The last dead letter is counted, then deleted.
  const Said counted = Run({"deadletter", "purge", "--all"});
  EXPECT_EQ(counted.exit_code, 0) << counted.words;
  EXPECT_THAT(counted.words, HasSubstr("1 dead letters match"));
  EXPECT_THAT(counted.data, HasSubstr("-c"));
  const auto purge = Json({"deadletter", "purge", "--all", "--force"});
  EXPECT_EQ(AwaitEnd(purge["name"])["kind"], "PURGE");
  EXPECT_EQ(Json({"deadletter", "list"}).size(), 0u);

  // All redriven events were accepted at their second attempt.
  EXPECT_TRUE(Await([&] { return receipts_.Stats().accepted >= 6; }));
  EXPECT_EQ(receipts_.Stats().accepted, 6u) << receipts_.StatsJson();
  EXPECT_EQ(receipts_.Stats().duplicates, 0u);
}

TEST_F(EscctlDeadLetterTest, CancelsAnOperation) {
  for (const char* id : {"a", "b"}) {
    Json({"event", "create", id, "--due", "+0s", "--http", Target(), "--max-attempts", "1"});
  }
  AwaitList({"deadletter", "list"}, 2);
  const auto begun = Json({"deadletter", "redrive", "--all", "--max-per-second", "0.01"});
  const std::string operation = begun["name"];
  EXPECT_EQ(begun["totalCount"], "2");
  AwaitList({"deadletter", "list"}, 1);
  EXPECT_EQ(Json({"operation", "cancel", operation, "--validate-only"})["state"], "CANCELLED");
  EXPECT_EQ(Json({"operation", "get", operation})["state"], "RUNNING");
  const auto cancelled = Json({"operation", "cancel", operation});
  EXPECT_EQ(cancelled["state"], "CANCELLED");
  EXPECT_EQ(cancelled["doneCount"], "1");
  EXPECT_EQ(Json({"deadletter", "list"}).size(), 1u);
}

TEST_F(EscctlDeadLetterTest, WrongUsageIsRefused) {
  EXPECT_EQ(Run({"deadletter", "redrive"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "redrive", "x", "--all"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "redrive", "--all", "--max-per-second", "-1"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "purge", "--force"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "list", "--filter", "colour = red"}).exit_code, 1);
  EXPECT_EQ(Run({"operation", "get", "none"}).exit_code, 3);
}

}  // namespace escctl_dead_letter_test
}  // namespace escapement::integration
