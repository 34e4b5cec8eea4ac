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
using ::testing::Not;
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

TEST_F(EscctlDeadLetterTest, GroupsFailuresAndRedrivesAGroup) {
  for (const char* id : {"a", "b"}) {
    Json({"event", "create", id, "--due", "+0s", "--http", Target(), "--max-attempts", "1"});
  }
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "--http", Target(), "--max-attempts", "1",
        "-n", "3"});
  Json({"schedule", "trigger", "s"});
  AwaitList({"deadletter", "list"}, 5);
  nlohmann::json groups;
  const auto complete = [&] {
    groups = Json({"deadletter", "groups"})["groups"];
    return groups.size() == 2 && groups[0]["count"] == "3" && groups[1]["count"] == "2";
  };
  ASSERT_TRUE(Await(complete)) << groups;
  EXPECT_EQ(groups[0]["schedule"], "tenants/default/schedules/s");
  EXPECT_FALSE(groups[1].contains("schedule"));
  const std::string error = groups[0]["error"];
  EXPECT_THAT(error, HasSubstr("#"));
  EXPECT_THAT(error, Not(HasSubstr("503")));
  const std::string filter = groups[0]["filter"];
  EXPECT_EQ(AwaitList({"deadletter", "list", "--filter", filter}, 3)[0]["schedule"],
            "tenants/default/schedules/s");
  const Said table = Run({"deadletter", "groups", "--hours", "1", "--filter", "schedule = s"});
  EXPECT_EQ(table.exit_code, 0) << table.words;
  EXPECT_THAT(table.data, StartsWith("COUNT "));
  EXPECT_THAT(table.data, HasSubstr(error));
  EXPECT_THAT(table.words, HasSubstr("-o yaml"));
  EXPECT_EQ(AwaitEnd(Json({"deadletter", "redrive", "--filter", filter})["name"])["doneCount"],
            "3");
  AwaitList({"deadletter", "list"}, 2);
}

TEST_F(EscctlDeadLetterTest, ShowsTheVersionsOfASchedule) {
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "--http", Target()});
  Json({"schedule", "update", "s", "--cron", "0 5 1 1 *", "-n", "3"});
  const auto versions = Json({"schedule", "versions", "s"})["versions"];
  ASSERT_EQ(versions.size(), 2u) << versions;
  EXPECT_EQ(versions[0]["version"], "2");
  EXPECT_EQ(versions[0]["changedFields"], nlohmann::json({"cron", "event_count"}));
  EXPECT_FALSE(versions[1].contains("changedFields"));
  const Said table = Run({"schedule", "versions", "s"});
  EXPECT_EQ(table.exit_code, 0) << table.words;
  EXPECT_THAT(table.data, StartsWith("VERSION "));
  EXPECT_THAT(table.data, HasSubstr("cron, event_count"));
  EXPECT_EQ(Run({"schedule", "versions", "none"}).exit_code, 3);
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
  EXPECT_EQ(Run({"deadletter", "groups", "--hours", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "redrive"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "redrive", "x", "--all"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "redrive", "--all", "--max-per-second", "-1"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "purge", "--force"}).exit_code, 2);
  EXPECT_EQ(Run({"deadletter", "list", "--filter", "colour = red"}).exit_code, 1);
  EXPECT_EQ(Run({"operation", "get", "none"}).exit_code, 3);
}

}  // namespace escctl_dead_letter_test
}  // namespace escapement::integration
