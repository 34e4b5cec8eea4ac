// The common parts of every process: flags, ports, health, metrics, drain. One real process runs at
// a time, plus the store if it needs one.

#include <signal.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace process_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class ProcessTest : public ::testing::TestWithParam<std::string> {
 protected:
  ProcessTest()
      : folder_(NewFolder("process")), platform_({.bin = BuiltFolder(), .folder = folder_}) {}

  bool OpensTheData() const { return GetParam() == "store" || GetParam() == "standalone"; }
  void StartAll() {
    if (!OpensTheData()) {
      ASSERT_TRUE(platform_.Start({"store"}).ok());
    }
    const absl::Status status = platform_.Start({GetParam()});
    ASSERT_TRUE(status.ok()) << status << "\n" << ReadFile(platform_.log(GetParam()));
  }
  std::unique_ptr<ChildProcess> Run(std::vector<std::string> arguments,
                                    std::vector<std::string> environment = {}) {
    auto child = ChildProcess::Start(
        {.program = absl::StrCat(BuiltFolder(), "/services/", GetParam(), "/", GetParam()),
         .arguments = std::move(arguments),
         .environment = std::move(environment),
         .log = folder_ + "/words"});
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }

  const std::string folder_;
  Platform platform_;
};

TEST_P(ProcessTest, TellsAllErrorsOfItsFlagsAtOnce) {
  auto child = Run({"--listen=nonsense", "--http_listen=0.0.0.0:0", "--bogus", "--log_level=loud"});
  EXPECT_EQ(*child->Wait(absl::Seconds(20)), 2);
  EXPECT_THAT(
      ReadFile(folder_ + "/words"),
      AllOf(HasSubstr("--listen: 'nonsense'"), HasSubstr("--http_listen: 0.0.0.0:0 is reachable"),
            HasSubstr("unknown flag --bogus"), HasSubstr("--log_level")));
}

TEST_P(ProcessTest, PrintsItsVersionAndConfiguration) {
  auto version = Run({"--version"});
  EXPECT_EQ(*version->AwaitLine("", absl::Seconds(20)),
            absl::StrCat("escapement-", absl::StrReplaceAll(GetParam(), {{"_", "-"}}),
                         " 0.0.0-dev (commit unknown)"));
  EXPECT_EQ(*version->Wait(absl::Seconds(20)), 0);
  std::vector<std::string> arguments = {"--print_config", "--drain_timeout=7s"};
  if (OpensTheData()) arguments.push_back("--data_dir=x");
  auto config = Run(arguments);
  EXPECT_EQ(*config->AwaitLine("drain_timeout", absl::Seconds(20)), "drain_timeout: \"7s\"");
  EXPECT_EQ(*config->Wait(absl::Seconds(20)), 0);
}

// A linker may leave common/rpc/grpc_sleep_override out of a program, and no other test would
// notice.
TEST_P(ProcessTest, LoaderFindsOurSleepBeforeThatOfGrpc) {
  auto child = Run({"--version"}, {"LD_DEBUG=bindings", "LD_BIND_NOW=1"});
  EXPECT_EQ(*child->Wait(absl::Seconds(20)), 0);
  EXPECT_TRUE(
      absl::StrContains(ReadFile(folder_ + "/words"),
                        absl::StrCat("/", GetParam(), " [0]: normal symbol `gpr_sleep_until'")));
}

TEST_P(ProcessTest, AnswersHealthReadinessAndMetricsAndDrainsOnSigterm) {
  StartAll();
  EXPECT_EQ(CheckHealth(platform_.grpc_address(GetParam())), Health::kServing);
  const std::string& http = platform_.http_address(GetParam());
  EXPECT_EQ(HttpGet(http, "/healthz")->status, 200);
  const auto metrics = HttpGet(http, "/metrics");
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->status, 200);
  EXPECT_THAT(metrics->body, HasSubstr("# TYPE escapement_"));
  EXPECT_EQ(HttpGet(http, "/nothing")->status, 404);

  const auto exit_code = platform_.Terminate(GetParam());
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0) << ReadFile(platform_.log(GetParam()));
}

TEST_P(ProcessTest, DrainsWhenItsTerminalCloses) {
  StartAll();
  const auto exit_code = platform_.Terminate(GetParam(), absl::Seconds(20), SIGHUP);
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0) << ReadFile(platform_.log(GetParam()));
}

TEST_P(ProcessTest, APortThatIsTakenIsAnErrorNotASharedPort) {
  StartAll();
  std::vector<std::string> arguments = {"--listen=" + platform_.grpc_address(GetParam()),
                                        "--http_listen=127.0.0.1:0"};
  if (OpensTheData()) arguments.push_back("--data_dir=" + folder_ + "/other");
  auto second = Run(arguments);
  EXPECT_EQ(*second->Wait(absl::Seconds(20)), 1);
  EXPECT_THAT(ReadFile(folder_ + "/words"), HasSubstr("could not start"));
}

INSTANTIATE_TEST_SUITE_P(Services, ProcessTest,
                         ::testing::Values("store", "master", "emitter", "handler", "token_manager",
                                           "standalone"),
                         [](const auto& info) { return info.param; });

TEST(StoreProcessTest, ASecondStoreCannotOpenTheSameData) {
  const std::string folder = NewFolder("process");
  Platform platform({.bin = BuiltFolder(), .folder = folder});
  ASSERT_TRUE(platform.Start({"store"}).ok());
  auto second =
      ChildProcess::Start({.program = BuiltFolder() + "/services/store/store",
                           .arguments = {"--listen=127.0.0.1:0", "--http_listen=127.0.0.1:0",
                                         "--data_dir=" + folder + "/data"},
                           .log = folder + "/words"});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*(*second)->Wait(absl::Seconds(20)), 1);
}

}  // namespace process_test
}  // namespace escapement::integration
