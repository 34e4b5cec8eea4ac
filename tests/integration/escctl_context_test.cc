// The contexts of escctl, and which server a command calls.

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/escctl_fixture.h"

namespace escapement::integration {
namespace escctl_context_test {

using ::testing::HasSubstr;

constexpr char kNowhere[] = "127.0.0.1:1";

class EscctlContextTest : public EscctlTest {
 protected:
  void SetUp() override {
    EscctlTest::SetUp();
    environment_.erase(environment_.begin());  // ESCAPEMENT_SERVER
    server_ = platform_->grpc_address("standalone");
  }
  int List(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--timeout", "2", "schedule", "list"});
    return Run(flags).exit_code;
  }

  std::string server_;
};

TEST_F(EscctlContextTest, ContextsAreSavedShownUsedAndDeleted) {
  EXPECT_EQ(Json({"config", "get-contexts"}).size(), 0u);
  EXPECT_EQ(Run({"config", "current-context"}).exit_code, 1);
  EXPECT_EQ(Run({"config", "set-context", "here", "--server", server_}).exit_code, 0);
  EXPECT_EQ(
      Run({"config", "set-context", "other", "--server", kNowhere, "--tenant", "t"}).exit_code, 0);
  struct stat info = {};
  ASSERT_EQ(stat((folder_ + "/config/escctl.yaml").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Run({"config", "use-context", "other"}).exit_code, 0);
  EXPECT_EQ(Run({"config", "current-context"}).data, "other\n");
  EXPECT_EQ(Run({"config", "get-contexts"}).data,
            absl::StrCat("CURRENT  NAME   SERVER", std::string(server_.size() - 4, ' '),
                         "TENANT   TLS  KEY\n         here   ", server_,
                         "  default  no   no\n*        other  ", kNowhere,
                         std::string(server_.size() - 9, ' '), "t        no   no\n"));
  EXPECT_EQ(Json({"config", "get-contexts"})[1]["current"], true);
  EXPECT_EQ(Run({"config", "delete-context", "other"}).exit_code, 0);
  EXPECT_EQ(Run({"config", "current-context"}).exit_code, 1);
  EXPECT_EQ(Json({"config", "get-contexts"}).size(), 1u);
  EXPECT_EQ(Run({"config", "use-context", "other"}).exit_code, 2);
  EXPECT_EQ(Run({"config", "delete-context", "other"}).exit_code, 2);
  EXPECT_EQ(Run({"config", "set-context", "a b", "--server", server_}).exit_code, 2);
  EXPECT_EQ(Run({"config", "set-context", "a", "--server", "nowhere"}).exit_code, 2);
}

TEST_F(EscctlContextTest, FlagThenEnvironmentThenContextNameTheServer) {
  Run({"config", "set-context", "here", "--server", server_});
  Run({"config", "set-context", "nowhere", "--server", kNowhere});
  Run({"config", "use-context", "nowhere"});
  EXPECT_EQ(List(), 5);
  EXPECT_EQ(List({"--context", "here"}), 0);
  EXPECT_EQ(List({"--server", server_}), 0);
  Run({"config", "use-context", "here"});
  EXPECT_EQ(List(), 0);
  EXPECT_EQ(List({"--context", "nowhere"}), 5);
  environment_.push_back(absl::StrCat("ESCAPEMENT_SERVER=", kNowhere));
  EXPECT_EQ(List(), 5);
  EXPECT_EQ(List({"--server", server_}), 0);
  EXPECT_THAT(Run({"--context", "here", "--timeout", "1", "schedule", "list"}).words,
              HasSubstr("go before --context"));
}

TEST_F(EscctlContextTest, TenantOfTheContextIsTakenUnlessItIsGiven) {
  Run({"config", "set-context", "here", "--server", server_, "--tenant", "other"});
  Run({"config", "use-context", "here"});
  EXPECT_THAT(Run({"schedule", "get", "s"}).words, HasSubstr("tenants/other"));
  EXPECT_THAT(Run({"schedule", "get", "s", "--tenant", "default"}).words,
              HasSubstr("tenants/default/schedules/s"));
}

TEST_F(EscctlContextTest, UnknownContextAndBrokenFileAreUsageErrors) {
  const Said unknown = Run({"schedule", "list", "--context", "lost"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.words, HasSubstr("there is no context 'lost'"));
  Run({"config", "set-context", "here", "--server", server_});
  std::ofstream(folder_ + "/config/escctl.yaml") << "current: [";
  const Said broken = Run({"schedule", "list"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.words, HasSubstr("escctl.yaml"));
  EXPECT_EQ(Run({"config", "get-contexts"}).exit_code, 2);
  EXPECT_EQ(List({"--server", server_}), 0);
}

}  // namespace escctl_context_test
}  // namespace escapement::integration
