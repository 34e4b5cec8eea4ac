// A standalone platform, and escctl commands that run against it.

#ifndef TESTS_INTEGRATION_ESCCTL_FIXTURE_H_
#define TESTS_INTEGRATION_ESCCTL_FIXTURE_H_

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/platform.h"

namespace escapement::integration {

class EscctlTest : public ::testing::Test {
 protected:
  EscctlTest() : folder_(NewFolder("escctl")) {}

  void SetUp() override { StartPlatform({}); }

  void StartPlatform(std::vector<std::string> flags) {
    platform_ = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = folder_,
                          .extra_arguments = {{"standalone", std::move(flags)}}});
    const absl::Status status = platform_->Start({"standalone"});
    ASSERT_TRUE(status.ok()) << status;
    environment_ = {"ESCAPEMENT_SERVER=" + platform_->grpc_address("standalone"),
                    "ESCAPEMENT_CONFIG_DIR=" + folder_ + "/config"};
    receiver_ = *fixtures::HttpReceiver::Start({}, &receipts_);
  }

  struct Said {
    int exit_code = -1;
    std::string data;
    std::string words;
  };
  Said Run(std::vector<std::string> arguments) {
    const std::string log = absl::StrCat(folder_, "/words", ++runs_);
    auto child = ChildProcess::Start({.program = BuiltFolder() + "/tools/escctl/escctl",
                                      .arguments = std::move(arguments),
                                      .environment = environment_,
                                      .log = log});
    EXPECT_TRUE(child.ok()) << child.status();
    Said said;
    for (auto line = (*child)->AwaitLine("", absl::Seconds(30)); line.ok();
         line = (*child)->AwaitLine("", absl::Seconds(30))) {
      absl::StrAppend(&said.data, *line, "\n");
    }
    said.exit_code = *(*child)->Wait(absl::Seconds(30));
    std::ifstream in(log);
    said.words = std::string(std::istreambuf_iterator<char>(in), {});
    return said;
  }
  // The output of a command that must succeed.
  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-o", "json"});
    const Said said = Run(std::move(arguments));
    EXPECT_EQ(said.exit_code, 0) << said.words;
    return nlohmann::json::parse(said.data, nullptr, false);
  }

  static std::vector<std::string> KeysOf(const nlohmann::json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    return keys;
  }

  const std::string folder_;
  int runs_ = 0;
  std::vector<std::string> environment_;  // for escctl
  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> receiver_;
  std::unique_ptr<Platform> platform_;
};

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_ESCCTL_FIXTURE_H_
