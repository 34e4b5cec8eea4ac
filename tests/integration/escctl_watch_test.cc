// `escctl top`, and --watch of get and list, against a real platform.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace escctl_watch_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(EscctlTest, TopShowsHeldLimitAndWaiting) {
  Json({"policy", "create", "one", "--max-concurrent", "1"});
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "-n", "5", "--policy", "one", "--http",
        receiver_->origin() + "/hook"});
  Json({"schedule", "trigger", "s"});
  receiver_->AwaitRequests(1);
  const Said top = Run({"top", "--once"});
  EXPECT_EQ(top.exit_code, 0) << top.words;
  EXPECT_THAT(top.data, StartsWith("POLICY"));
  EXPECT_THAT(top.data, ContainsRegex("one +ENABLED +1 +1 +4 "));
  EXPECT_THAT(top.data, ContainsRegex("s +one +1 +4 "));
  EXPECT_THAT(top.data, Not(HasSubstr("DELIVERED")));
}

TEST_F(EscctlTest, TopReadsTheMetricsOfAProcess) {
  Json({"schedule", "create", "s", "--cron", "0 0 1 1 *", "-n", "7", "--http",
        receiver_->origin() + "/hook"});
  Json({"schedule", "trigger", "s"});
  receiver_->AwaitRequests(7);
  const std::string url = absl::StrCat("http://", platform_->http_address("standalone"));
  // The receiver may know of an answer before the handler.
  Said top;
  for (int tries = 0; tries < 100; ++tries) {
    top = Run({"top", "--once", "--metrics-url", url});
    if (top.data.find("\n-            7 ") != std::string::npos) break;
  }
  EXPECT_EQ(top.exit_code, 0) << top.words;
  EXPECT_THAT(top.data, StartsWith("DELIVERED/S"));
  EXPECT_THAT(top.data, ContainsRegex("\n- +7 +[0-9.]+ m?s +[0-9.]+ m?s +0 "));

  // The second frame has a rate.
  auto live = ChildProcess::Start({.program = BuiltFolder() + "/tools/escctl/escctl",
                                   .arguments = {"top", "--metrics-url", url + "/metrics"},
                                   .environment = environment_,
                                   .log = folder_ + "/top"});
  ASSERT_TRUE(live.ok()) << live.status();
  for (const char* row : {"- ", "0.0 "})
    EXPECT_TRUE((*live)->AwaitLine(row, absl::Seconds(30)).ok()) << row;
  (*live)->Kill();
}

TEST_F(EscctlTest, TopNamesAnAddressThatIsWrong) {
  EXPECT_EQ(Run({"top", "--once", "--metrics-url", "127.0.0.1:1"}).exit_code, 2);
  const Said nobody = Run({"top", "--once", "--metrics-url", "http://127.0.0.1:1"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.words, HasSubstr("--metrics-url: http://127.0.0.1:1 refuses connections"));
  const std::string address = platform_->http_address("standalone");
  const Said nothing =
      Run({"top", "--once", "--metrics-url", absl::StrCat("http://", address, "/nothing")});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.words, HasSubstr("404"));
}

class EscctlWatchTest : public EscctlTest {
 protected:
  // Starts a command that stays.
  std::unique_ptr<ChildProcess> Watch(std::vector<std::string> arguments) {
    auto child = ChildProcess::Start({.program = BuiltFolder() + "/tools/escctl/escctl",
                                      .arguments = std::move(arguments),
                                      .environment = environment_,
                                      .log = folder_ + "/watch"});
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  static std::string Next(ChildProcess& child, const std::string& prefix) {
    const auto line = child.AwaitLine(prefix, absl::Seconds(30));
    return line.ok() ? *line : line.status().ToString();
  }
  void Create(const std::string& name) {
    Json({"schedule", "create", name, "--cron", "0 3 1 1 *", "--http", receiver_->origin()});
  }
};

TEST_F(EscctlWatchTest, ListPrintsTheRowsThatChange) {
  Create("a");
  Create("b");
  const auto watch = Watch({"schedule", "list", "--watch"});
  EXPECT_THAT(Next(*watch, ""), HasSubstr("NAME"));
  EXPECT_THAT(Next(*watch, ""), HasSubstr("schedules/a  ENABLED"));
  EXPECT_THAT(Next(*watch, ""), HasSubstr("schedules/b  ENABLED"));
  Json({"schedule", "pause", "b"});
  EXPECT_THAT(Next(*watch, ""), HasSubstr("schedules/b  PAUSED"));
  Create("c");
  EXPECT_THAT(Next(*watch, ""), HasSubstr("schedules/c  ENABLED"));
  Run({"schedule", "delete", "a"});
  Create("d");
  EXPECT_THAT(Next(*watch, ""), HasSubstr("schedules/d  ENABLED"));
  watch->Signal(SIGINT);
  EXPECT_EQ(*watch->Wait(absl::Seconds(10)), 128 + SIGINT);
}

TEST_F(EscctlWatchTest, GetPrintsEachNewVersionInItsFormat) {
  Json({"policy", "create", "p", "-m", "1"});
  const auto watch = Watch({"policy", "get", "p", "-w", "-o", "yaml"});
  EXPECT_EQ(Next(*watch, "maxConcurrent"), "maxConcurrent: \"1\"");
  Json({"policy", "update", "p", "-m", "2"});
  EXPECT_EQ(Next(*watch, "---"), "---");
  EXPECT_EQ(Next(*watch, "maxConcurrent"), "maxConcurrent: \"2\"");
  Run({"policy", "delete", "p"});
  EXPECT_EQ(*watch->Wait(absl::Seconds(10)), 3);
}

TEST_F(EscctlWatchTest, WatchCountBoundsTheReadings) {
  Create("a");
  const std::string run = Json({"schedule", "trigger", "a"})["name"];
  const std::vector<std::vector<std::string>> commands = {{"schedule", "get", "a"},
                                                          {"schedule", "runs", "a"},
                                                          {"run", "get", run},
                                                          {"policy", "list"},
                                                          {"event", "list"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--watch", "--watch-count", "1"});
    const Said said = Run(command);
    EXPECT_EQ(said.exit_code, 0) << said.words;
    EXPECT_NE(said.data, "");
  }
  EXPECT_EQ(Run({"schedule", "get", "nothing", "-w"}).exit_code, 3);
  EXPECT_EQ(Run({"event", "get", "nothing", "-w"}).exit_code, 3);
}

}  // namespace escctl_watch_test
}  // namespace escapement::integration
