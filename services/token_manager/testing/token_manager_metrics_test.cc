#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/token_manager/base/metrics.h"

namespace escapement::token_manager {
namespace token_manager_metrics_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TokenManagerMetricsTest, NumbersShowUnderTheirNames) {
  Metrics registry;
  TokenManagerMetrics metrics(registry);
  metrics.granted.Increment(7);
  metrics.held.Set(3);
  EXPECT_THAT(registry.Serialize(),
              AllOf(HasSubstr("# TYPE escapement_token_manager_granted_total counter\n"
                              "escapement_token_manager_granted_total 7\n"),
                    HasSubstr("# TYPE escapement_token_manager_tokens_held gauge\n"
                              "escapement_token_manager_tokens_held 3\n")));
}

TEST(TokenManagerMetricsTest, BucketsCountAllWaitsBelowTheirBound) {
  Metrics registry;
  TokenManagerMetrics metrics(registry);
  metrics.wait_seconds.Observe(0);
  metrics.wait_seconds.Observe(0.003, 10);
  metrics.wait_seconds.Observe(7200, 100);
  EXPECT_THAT(registry.Serialize(),
              AllOf(HasSubstr("_wait_seconds_bucket{le=\"0.001\"} 1\n"),
                    HasSubstr("_wait_seconds_bucket{le=\"0.005\"} 11\n"),
                    HasSubstr("_wait_seconds_bucket{le=\"3600\"} 11\n"),
                    HasSubstr("_wait_seconds_bucket{le=\"+Inf\"} 111\n"),
                    HasSubstr("_wait_seconds_count 111\n"), HasSubstr("_wait_seconds_sum 720000")));
}

}  // namespace token_manager_metrics_test
}  // namespace escapement::token_manager
