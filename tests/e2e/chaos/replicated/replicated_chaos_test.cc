// Real processes over a replicated store and a PostgreSQL with a standby survive kills, pauses and
// cuts of stores and database, and a promotion of the standby. A leader that stood still answers
// nothing that is no longer true.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/chaos/chaos_run.h"

namespace escapement::chaos {
namespace replicated_chaos_test {

TEST(ReplicatedChaosTest, NothingIsLostWhicheverStoreOrServerFails) {
  ChaosOptions options;
  options.bin = absl::StrCat(getenv("TEST_SRCDIR"), "/escapement");
  options.folder = absl::StrCat(getenv("TEST_TMPDIR"), "/chaos");
  std::filesystem::create_directories(options.folder);
  options.plan.seed = 1;
  options.plan.end = absl::Seconds(55);
  options.replica_faults = 12;
  const auto result = RunChaos(options);
  ASSERT_TRUE(result.ok()) << result.status() << "; logs in " << options.folder;
  SCOPED_TRACE(Report(options, *result));
  EXPECT_TRUE(result->violations.empty());
  // Every planned fault happened. The first twelve of the plan are these.
  EXPECT_EQ(result->kills, 4);
  EXPECT_EQ(result->pauses, 3);
  EXPECT_EQ(result->terminations, 1);
  EXPECT_EQ(result->cuts, 3);
  EXPECT_EQ(result->promotions, 1);
  EXPECT_GE(result->terms, 3u);
  // There was real load. Stores that did not lead were called, and so was the leader while it stood
  // still: it refused those calls when it went on.
  EXPECT_GE(result->calls, 50u);
  EXPECT_GE(result->history.receipts.size(), 200u);
  EXPECT_GE(result->probes_answered, 500u);
  EXPECT_GE(result->probes_refused, 500u);
  EXPECT_GE(result->probes_refused_late, 100u);
  if (HasFailure()) KeepLogs(options.folder);
}

}  // namespace replicated_chaos_test
}  // namespace escapement::chaos
