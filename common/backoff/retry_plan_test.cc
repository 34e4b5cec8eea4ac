#include <string>

#include "common/backoff/backoff.h"
#include "gtest/gtest.h"

namespace escapement {
namespace retry_plan_test {

RetryInput Input() {
  RetryInput input;
  input.attempts_max = 4;
  input.age_max = absl::Hours(1);
  input.tried_since = absl::FromUnixSeconds(1'000);
  input.now = absl::FromUnixSeconds(1'010);
  input.random = uint64_t{1} << 63;
  return input;
}

TEST(RetryPlanTest, WaitsTheJitteredBackoff) {
  EXPECT_EQ(PlanRetry(Input()).at, absl::FromUnixMillis(1'010'750));
}

TEST(RetryPlanTest, RetryAfterIsTheShortestWait) {
  RetryInput input = Input();
  input.retry_after = absl::Seconds(90);
  EXPECT_EQ(PlanRetry(input).at, absl::FromUnixSeconds(1'100));
}

TEST(RetryPlanTest, LastAttemptIsNotRetried) {
  RetryInput input = Input();
  input.attempts = 3;
  EXPECT_TRUE(PlanRetry(input).at.has_value());
  input.attempts = 4;
  EXPECT_FALSE(PlanRetry(input).at.has_value());
}

TEST(RetryPlanTest, NoAttemptBeginsAfterTheMaxAge) {
  RetryInput input = Input();
  input.age_max = absl::Milliseconds(10'750);
  EXPECT_EQ(PlanRetry(input).at, absl::FromUnixMillis(1'010'750));
  input.age_max -= absl::Microseconds(1);
  EXPECT_FALSE(PlanRetry(input).at.has_value());
}

TEST(RetryPlanTest, RetryAfterIsCutToTheMaxAge) {
  RetryInput input = Input();
  input.retry_after = absl::Seconds(3'590);  // ends with the age
  EXPECT_EQ(PlanRetry(input).at, absl::FromUnixSeconds(4'600));
  EXPECT_FALSE(PlanRetry(input).retry_after_cut);
  input.retry_after = absl::Hours(24);
  EXPECT_EQ(PlanRetry(input).at, absl::FromUnixSeconds(4'599));
  EXPECT_TRUE(PlanRetry(input).retry_after_cut);
  input.age_max = absl::Milliseconds(11'200);
  EXPECT_EQ(PlanRetry(input).at, absl::FromUnixMillis(1'010'750)) << "not before the backoff";
  input.age_max = absl::Seconds(11);
  EXPECT_FALSE(PlanRetry(input).at.has_value()) << "this was the attempt before the end";
  EXPECT_EQ(RetryAfterCut("429"),
            "429; its Retry-After ends after the event's max_age: tried again shortly before that");
}

TEST(RetryPlanTest, NoAttemptBeginsAtOrAfterTheNextOccurrence) {
  RetryInput input = Input();
  input.next_occurrence = absl::FromUnixMillis(1'010'750) + absl::Microseconds(1);
  EXPECT_EQ(PlanRetry(input).at, absl::FromUnixMillis(1'010'750));
  EXPECT_FALSE(PlanRetry(input).past_next_occurrence);
  input.next_occurrence = absl::FromUnixMillis(1'010'750);
  EXPECT_FALSE(PlanRetry(input).at.has_value());
  EXPECT_TRUE(PlanRetry(input).past_next_occurrence);
}

TEST(RetryPlanTest, OtherReasonsTakePrecedenceOverTheNextOccurrence) {
  RetryInput input = Input();
  input.next_occurrence = input.now;
  input.attempts = 4;
  EXPECT_FALSE(PlanRetry(input).at.has_value());
  EXPECT_FALSE(PlanRetry(input).past_next_occurrence);
  input.attempts = 1;
  input.age_max = absl::Seconds(10);
  EXPECT_FALSE(PlanRetry(input).at.has_value());
  EXPECT_FALSE(PlanRetry(input).past_next_occurrence);
}

TEST(RetryPlanTest, ReasonKeepsTheLastErrorAndFitsARecord) {
  EXPECT_EQ(PastNextOccurrence("503"), "503; not tried again past the next occurrence");
  EXPECT_EQ(PastNextOccurrence(""), "not tried again past the next occurrence");
  const std::string cut = PastNextOccurrence(std::string(1000, 'x'));
  EXPECT_EQ(cut.size(), 256);
  EXPECT_EQ(cut.substr(210), "xxxx; not tried again past the next occurrence");
}

}  // namespace retry_plan_test
}  // namespace escapement
