#include "common/backoff/retry_plan.h"

#include <limits>

#include "gtest/gtest.h"

namespace escapement {
namespace {

RetryInput Input() {
  RetryInput input;
  input.attempts_max = 4;
  input.age_max = absl::Hours(1);
  input.launch_time = absl::FromUnixSeconds(1'000);
  input.now = absl::FromUnixSeconds(1'010);
  input.random = uint64_t{1} << 63;
  return input;
}

TEST(RetryPlanTest, WaitsTheJitteredBackoff) {
  EXPECT_EQ(PlanRetry(Input()), absl::FromUnixMillis(1'010'500));
}

TEST(RetryPlanTest, TheConsumersRetryAfterIsTheLeastWait) {
  RetryInput input = Input();
  input.retry_after = absl::Seconds(90);
  EXPECT_EQ(PlanRetry(input), absl::FromUnixSeconds(1'100));
}

TEST(RetryPlanTest, TheLastAttemptIsFollowedByNone) {
  RetryInput input = Input();
  input.attempts = 3;
  EXPECT_TRUE(PlanRetry(input).has_value());
  input.attempts = 4;
  EXPECT_FALSE(PlanRetry(input).has_value());
}

TEST(RetryPlanTest, NoAttemptBeginsPastTheGreatestAge) {
  RetryInput input = Input();
  input.retry_after = absl::Minutes(60);
  EXPECT_FALSE(PlanRetry(input).has_value());
}

}  // namespace
}  // namespace escapement
