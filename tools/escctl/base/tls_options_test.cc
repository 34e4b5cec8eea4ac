#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {
namespace tls_options_test {

using ::testing::HasSubstr;

// tests/integration/tls has the words of real servers.
TEST(TlsOptionsTest, AdviceFollowsTheWordsOfGrpc) {
  EXPECT_THAT(TlsAdvice("ipv4:127.0.0.1:1: Socket closed", false), HasSubstr("--tls-ca is needed"));
  EXPECT_THAT(TlsAdvice("ipv4:127.0.0.1:1: Socket closed", true), HasSubstr("--tls-cert"));
  EXPECT_THAT(TlsAdvice("SSL routines::wrong version number", true), HasSubstr("does not use TLS"));
  EXPECT_THAT(TlsAdvice("Hostname Verification Check failed", true), HasSubstr("another host"));
  EXPECT_EQ(TlsAdvice("Connection refused", true), "");
  EXPECT_EQ(TlsAdvice("Connection refused", false), "");
}

TEST(TlsOptionsTest, FlagsMustFitTogether) {
  EXPECT_TRUE(CheckTlsFlags({}).ok());
  EXPECT_THAT(CheckTlsFlags({.ca = "", .cert = "c", .key = "k"}).message(), HasSubstr("--tls-ca"));
  EXPECT_THAT(CheckTlsFlags({.ca = "a", .cert = "c"}).message(), HasSubstr("the other one"));
  EXPECT_THAT(CheckTlsFlags({.ca = "/proc/none"}).message(), HasSubstr("/proc/none"));
}

}  // namespace tls_options_test
}  // namespace escapement::escctl
