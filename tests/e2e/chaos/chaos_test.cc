// Real processes under load survive kill -9, pauses, orderly restarts and cut links: nothing is
// lost, early, over a limit, or doubled without a reason.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/chaos/chaos_run.h"

namespace escapement::chaos {
namespace chaos_test {

TEST(ChaosTest, NothingIsLostEarlyOrOverTheLimitWhateverIsKilled) {
  ChaosOptions options;
  options.bin = absl::StrCat(getenv("TEST_SRCDIR"), "/escapement");
  options.folder = absl::StrCat(getenv("TEST_TMPDIR"), "/chaos");
  std::filesystem::create_directories(options.folder);
  options.plan.seed = 1;
  options.plan.end = absl::Seconds(80);
  const auto result = RunChaos(options);
  ASSERT_TRUE(result.ok()) << result.status() << "; logs in " << options.folder;
  SCOPED_TRACE(Report(options, *result));
  EXPECT_TRUE(result->violations.empty());
  EXPECT_GE(result->kills, 20);
  EXPECT_GE(result->pauses, 5);
  EXPECT_GE(result->cuts, 10);
  // There was real load.
  EXPECT_GE(result->calls, 100u);
  EXPECT_GE(result->history.receipts.size(), 500u);
  EXPECT_GE(result->history.works.size(), 50u);
  if (HasFailure()) KeepLogs(options.folder);
}

}  // namespace chaos_test
}  // namespace escapement::chaos
