#include "services/handler/base/step_gap.h"

#include "gtest/gtest.h"

namespace escapement::handler {
namespace step_gap_test {

TEST(StepGapTest, ShortStepIsFollowedByTheShortestGap) {
  EXPECT_EQ(GapAfterStep(absl::ZeroDuration()), absl::Microseconds(50));
  EXPECT_EQ(GapAfterStep(absl::Microseconds(12)), absl::Microseconds(50));
}

TEST(StepGapTest, TheGapFollowsTheStep) {
  EXPECT_EQ(GapAfterStep(absl::Microseconds(13)), absl::Microseconds(52));
  EXPECT_EQ(GapAfterStep(absl::Microseconds(100)), absl::Microseconds(400));
  EXPECT_EQ(GapAfterStep(absl::Microseconds(124)), absl::Microseconds(496));
}

TEST(StepGapTest, GapAfterALongStepIsHalfAMillisecond) {
  EXPECT_EQ(GapAfterStep(absl::Microseconds(125)), absl::Microseconds(500));
  EXPECT_EQ(GapAfterStep(absl::Milliseconds(40)), absl::Microseconds(500));
}

TEST(StepGapTest, ClockGoingBackGivesTheShortestGap) {
  EXPECT_EQ(GapAfterStep(-absl::Milliseconds(1)), absl::Microseconds(50));
}

}  // namespace step_gap_test
}  // namespace escapement::handler
