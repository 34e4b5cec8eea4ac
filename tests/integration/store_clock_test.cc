// escctl store clock and status, over the wire, with each process that serves StoreService.

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace store_clock_test {

TEST_F(EscctlTest, ShowsTheStoresClockThroughMasterStoreAndStandalone) {
  std::string apart_folder = NewFolder("apart");
  Platform apart({.bin = BuiltFolder(), .folder = apart_folder});
  const absl::Status started = apart.Start({"store", "master"});
  ASSERT_TRUE(started.ok()) << started;
  for (const std::string& server : {platform_->grpc_address("standalone"),
                                    apart.grpc_address("master"), apart.grpc_address("store")}) {
    const nlohmann::json clock = Json({"--server", server, "store", "clock"});
    EXPECT_FALSE(clock["storeTime"].get<std::string>().empty()) << server;
    EXPECT_FALSE(clock.value("held", false)) << server;
    EXPECT_EQ(clock.value("hosts", 0), 0) << "its own machine's processes are no evidence";
    const Said confirmed = Run({"--server", server, "store", "clock", "--confirm"});
    EXPECT_EQ(confirmed.exit_code, 0) << confirmed.words;
    EXPECT_NE(confirmed.data.find("runs"), std::string::npos) << confirmed.data;
  }
  apart.Kill("store");
  const Said unreachable = Run({"--server", apart.grpc_address("master"), "store", "clock"});
  EXPECT_EQ(unreachable.exit_code, 5);
  EXPECT_NE(unreachable.words.find("the store did not answer"), std::string::npos)
      << unreachable.words;
}

TEST_F(EscctlTest, ShowsTheStoresStateThroughMasterStoreAndStandalone) {
  Platform apart({.bin = BuiltFolder(), .folder = NewFolder("apart")});
  const absl::Status started = apart.Start({"store", "master"});
  ASSERT_TRUE(started.ok()) << started;
  for (const std::string& server : {platform_->grpc_address("standalone"),
                                    apart.grpc_address("master"), apart.grpc_address("store")}) {
    const nlohmann::json status = Json({"--server", server, "store", "status"});
    EXPECT_GT(std::stoll(status.value("commitSeq", "0")), 0) << server;
    EXPECT_TRUE(status.value("acceptsCommits", false)) << server;
    EXPECT_FALSE(status.contains("replication")) << server;
    const Said table = Run({"--server", server, "store", "status"});
    EXPECT_NE(table.data.find("replicated   no"), std::string::npos) << table.data;
    const Said refused = Run({"--server", server, "store", "handover"});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_NE(refused.words.find("not replicated"), std::string::npos) << refused.words;
  }
}

}  // namespace store_clock_test
}  // namespace escapement::integration
