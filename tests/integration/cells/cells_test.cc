// Two cells, each with all its services as real processes, and one master over both.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace cells_test {

using ::testing::HasSubstr;

const std::vector<std::string> kHome = {"store", "master", "emitter", "token_manager", "handler"};
const std::vector<std::string> kSecond = {"store@1", "emitter@1", "token_manager@1", "handler@1"};

class CellsTest : public EscctlTest {
 protected:
  void SetUp() override {
    platform_ =
        std::make_unique<Platform>(Platform::Options{.bin = BuiltFolder(), .folder = folder_});
    absl::Status status = platform_->Start(kHome);
    ASSERT_TRUE(status.ok()) << status;
    // The services of a new cell are ready once it has the home cell's key of tokens.
    ASSERT_TRUE(platform_->Restart("store@1").ok());
    ASSERT_TRUE(platform_->AwaitReady("store@1").ok());
    environment_ = {"ESCAPEMENT_SERVER=" + platform_->grpc_address("master"),
                    "ESCAPEMENT_CONFIG_DIR=" + folder_ + "/config"};
    ExpectOk({"cell", "create", "1", "--store", platform_->grpc_address("store@1")});
    status = platform_->Start({"emitter@1", "token_manager@1", "handler@1"});
    ASSERT_TRUE(status.ok()) << status;
    receiver_ = *fixtures::HttpReceiver::Start({.kept_requests_max = 1000}, &receipts_);
  }

  void TearDown() override {
    if (!HasFailure()) return;
    platform_->ShowLogs(kHome, 100);
    platform_->ShowLogs(kSecond, 100);
  }

  Said ExpectOk(std::vector<std::string> command) {
    Said said = Run(std::move(command));
    EXPECT_EQ(said.exit_code, 0) << said.words;
    return said;
  }
  bool Received(const std::string& path) {
    for (const auto& [head, body] : receiver_->KeptRequests())
      if (absl::StrContains(head, absl::StrCat(" ", path, " "))) return true;
    return false;
  }
  // The values of this header in requests to the path.
  std::vector<std::string> TokensSentTo(const std::string& path) {
    const std::string header = "\r\nEscapement-Token: ";
    std::vector<std::string> tokens;
    for (const auto& [head, body] : receiver_->KeptRequests()) {
      const size_t at = head.find(header);
      if (at == std::string::npos || !absl::StrContains(head, absl::StrCat(" ", path, " ")))
        continue;
      const size_t begin = at + header.size();
      tokens.push_back(head.substr(begin, head.find("\r\n", begin) - begin));
    }
    return tokens;
  }
};

TEST_F(CellsTest, TenantsOfBothCellsAreServedByOneMaster) {
  ExpectOk({"tenant", "create", "far", "--cell", "1"});
  EXPECT_EQ(Json({"tenant", "get", "far"})["cell"], "cells/1");
  for (const std::string tenant : {"default", "far"}) {
    ExpectOk({"schedule", "create", "often", "--tenant", tenant, "--every", "1s", "--http",
              absl::StrCat(receiver_->origin(), "/often/", tenant)});
    ExpectOk({"policy", "create", "one", "--tenant", tenant, "--max-concurrent", "1"});
    ExpectOk({"event", "create", "--tenant", tenant, "--policy", "one", "--completion",
              "on-release", "--http", absl::StrCat(receiver_->origin(), "/event/", tenant)});
  }
  for (const std::string tenant : {"default", "far"}) {
    EXPECT_TRUE(Await([&] { return Received("/often/" + tenant); })) << tenant;
    EXPECT_TRUE(Await([&] { return TokensSentTo("/event/" + tenant).size() == 1; })) << tenant;
  }
  // One request gives back the tokens of both.
  const std::string near = TokensSentTo("/event/default").at(0);
  const std::string far = TokensSentTo("/event/far").at(0);
  for (const auto& result : Json({"token", "complete", near, far}))
    EXPECT_EQ(result["status"], "STORED");
  for (const std::string tenant : {"default", "far"}) {
    ExpectOk({"event", "create", "--tenant", tenant, "--policy", "one", "--completion",
              "on-release", "--http", absl::StrCat(receiver_->origin(), "/event/", tenant)});
    EXPECT_TRUE(Await([&] { return TokensSentTo("/event/" + tenant).size() == 2; })) << tenant;
  }
  for (const auto& result : Json({"token", "complete", near, far}))
    EXPECT_EQ(result["status"], "NOT_HELD");

  EXPECT_EQ(Json({"schedule", "runs", "often", "--tenant", "far", "--limit", "1"}).size(), 1u);
  const auto status = Json({"cell", "status"});
  ASSERT_EQ(status.size(), 2u);
  for (const auto& cell : status) EXPECT_EQ(cell["serving"], true) << cell.dump();
  EXPECT_THAT(ExpectOk({"cell", "list"}).data, HasSubstr(platform_->grpc_address("store@1")));
}

TEST_F(CellsTest, CreateIfMissingFindsACellWithTheSameStoreOnly) {
  const std::string& store = platform_->grpc_address("store@1");
  EXPECT_EQ(Run({"cell", "create", "1", "--store", store}).exit_code, 1);
  EXPECT_THAT(ExpectOk({"cell", "create", "1", "--store", store, "--if-missing"}).data,
              HasSubstr(store));
  EXPECT_EQ(
      Run({"cell", "create", "1", "--store", platform_->grpc_address("store"), "--if-missing"})
          .exit_code,
      1);
}

TEST_F(CellsTest, ACellWithoutItsStoreLeavesTheOtherAlone) {
  ExpectOk({"tenant", "create", "far", "--cell", "1"});
  platform_->Kill("store@1");
  EXPECT_TRUE(Await([&] {
    return absl::StrContains(Run({"schedule", "list", "--tenant", "far"}).words,
                             "cells/1 cannot be reached");
  }));
  ExpectOk({"schedule", "list"});
  ExpectOk({"tenant", "get", "far"});
  EXPECT_TRUE(platform_->AwaitReady("master").ok());
  EXPECT_EQ(HttpGet(platform_->http_address("master"), "/readyz")->body,
            "ok\ncells/1 is not served: its store does not answer\n");
  ASSERT_TRUE(platform_->Restart("store@1").ok());
  EXPECT_TRUE(Await([&] { return Run({"schedule", "list", "--tenant", "far"}).exit_code == 0; }));
  EXPECT_EQ(HttpGet(platform_->http_address("master"), "/readyz")->body, "ok\n");

  // A master that starts now finds both.
  ASSERT_TRUE(platform_->Terminate("master").ok());
  ASSERT_TRUE(platform_->Restart("master").ok());
  EXPECT_TRUE(Await([&] { return Run({"schedule", "list", "--tenant", "far"}).exit_code == 0; }));
}

}  // namespace cells_test
}  // namespace escapement::integration
