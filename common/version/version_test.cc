#include "common/version/version.h"

#include "gtest/gtest.h"

namespace escapement {
namespace version_test {

TEST(VersionTest, BuildWithTheDefaultsIsNoRelease) {
  EXPECT_EQ(Version(), "0.0.0-dev");
  EXPECT_EQ(Commit(), "unknown");
  EXPECT_EQ(VersionLine("escctl"), "escctl 0.0.0-dev (commit unknown)");
}

TEST(VersionTest, InstalledNamesHaveHyphens) {
  EXPECT_EQ(InstalledName("master"), "escapement-master");
  EXPECT_EQ(InstalledName("token_manager"), "escapement-token-manager");
}

}  // namespace version_test
}  // namespace escapement
