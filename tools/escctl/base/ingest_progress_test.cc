#include "tools/escctl/base/ingest_progress.h"

#include "gtest/gtest.h"

namespace escapement::escctl {
namespace ingest_progress_test {

TEST(IngestProgressTest, RateCountsEveryAnsweredEvent) {
  EXPECT_EQ(ProgressText({.created = 1000, .existing = 150, .refused = 50}, absl::Seconds(2)),
            "1000 created, 150 existing, 50 refused, 600/s");
  EXPECT_EQ(ProgressText({.created = 1, .replaced = 2, .cancelled = 3}, absl::Seconds(1)),
            "1 created, 0 existing, 2 replaced, 3 cancelled, 0 refused, 6/s");
  EXPECT_EQ(ProgressText({}, absl::ZeroDuration()), "0 created, 0 existing, 0 refused, 0/s");
}

}  // namespace ingest_progress_test
}  // namespace escapement::escctl
