#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/token_manager/metrics.h"

namespace escapement::token_manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TokenManagerMetricsTest, NumbersShowUnderTheirNames) {
  TokenManagerStats stats;
  stats.granted = 7;
  stats.held = 3;
  EXPECT_THAT(FormatTokenManagerMetrics(stats),
              AllOf(HasSubstr("# TYPE escapement_token_manager_granted_total counter\n"
                              "escapement_token_manager_granted_total 7\n"),
                    HasSubstr("# TYPE escapement_token_manager_tokens_held gauge\n"
                              "escapement_token_manager_tokens_held 3\n")));
}

TEST(TokenManagerMetricsTest, BucketsOfTheWaitCountAllBelowTheirBound) {
  TokenManagerStats stats;
  stats.AddWait(absl::Milliseconds(-5), 1);
  stats.AddWait(absl::Milliseconds(3), 10);
  stats.AddWait(absl::Hours(2), 100);
  EXPECT_THAT(FormatTokenManagerMetrics(stats),
              AllOf(HasSubstr("_wait_seconds_bucket{le=\"0.001\"} 1\n"),
                    HasSubstr("_wait_seconds_bucket{le=\"0.005\"} 11\n"),
                    HasSubstr("_wait_seconds_bucket{le=\"3600\"} 11\n"),
                    HasSubstr("_wait_seconds_bucket{le=\"+Inf\"} 111\n"),
                    HasSubstr("_wait_seconds_count 111\n"), HasSubstr("_wait_seconds_sum 720000")));
}

}  // namespace
}  // namespace escapement::token_manager
