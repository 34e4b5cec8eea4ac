#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <string>

#include "common/rpc/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace grpc_log_test {

using ::testing::HasSubstr;

TEST(GrpcLogTest, LinesOfGrpcAreOursAndFew) {
  RouteGrpcLog();
  grpc_init();  // before, gRPC logs nothing
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "handshake %d \"failed\"", i);
  const std::string text = ::testing::internal::GetCapturedStderr();
  grpc_shutdown();
  EXPECT_THAT(text, HasSubstr("\"level\":\"warning\""));
  EXPECT_THAT(text, HasSubstr("handshake 0 \\\"failed\\\""));
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 10);
  // The loop may meet the beginning of further seconds.
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 500);
}

}  // namespace grpc_log_test
}  // namespace escapement
