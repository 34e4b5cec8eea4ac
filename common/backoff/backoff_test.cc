#include "common/backoff/backoff.h"

#include <limits>

#include "gtest/gtest.h"

namespace escapement {
namespace backoff_test {

const BackoffPolicy kPolicy{.min = absl::Seconds(1), .max = absl::Seconds(300), .multiplier = 2};

TEST(BackoffTest, TheCapGrowsGeometricallyUpToTheMaximum) {
  EXPECT_EQ(BackoffCap(kPolicy, 1), absl::Seconds(1));
  EXPECT_EQ(BackoffCap(kPolicy, 2), absl::Seconds(2));
  EXPECT_EQ(BackoffCap(kPolicy, 5), absl::Seconds(16));
  EXPECT_EQ(BackoffCap(kPolicy, 10), absl::Seconds(300));
}

TEST(BackoffTest, AThousandAttemptsDoNotOverflow) {
  EXPECT_EQ(BackoffCap(kPolicy, 100'000), absl::Seconds(300));
}

TEST(BackoffTest, JitterCoversTheWholeIntervalAndNeverLeavesIt) {
  EXPECT_EQ(FullJitterBackoff(kPolicy, 3, 0), absl::ZeroDuration());
  const absl::Duration longest =
      FullJitterBackoff(kPolicy, 3, std::numeric_limits<uint64_t>::max());
  EXPECT_LE(longest, absl::Seconds(4));
  EXPECT_GT(longest, absl::Seconds(3.999));
  EXPECT_EQ(FullJitterBackoff(kPolicy, 3, uint64_t{1} << 63), absl::Seconds(2));
}

TEST(BackoffTest, EqualJitterAlwaysWaitsHalfOfTheCap) {
  EXPECT_EQ(EqualJitterBackoff(kPolicy, 3, 0), absl::Seconds(2));
  EXPECT_EQ(EqualJitterBackoff(kPolicy, 3, uint64_t{1} << 63), absl::Seconds(3));
  const absl::Duration longest =
      EqualJitterBackoff(kPolicy, 3, std::numeric_limits<uint64_t>::max());
  EXPECT_LE(longest, absl::Seconds(4));
  EXPECT_GT(longest, absl::Seconds(3.999));
}

}  // namespace backoff_test
}  // namespace escapement
