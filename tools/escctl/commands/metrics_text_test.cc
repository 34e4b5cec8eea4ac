#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "tools/escctl/commands/top_frame.h"

namespace escapement::escctl {
namespace metrics_text_test {

constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr char kText[] = R"(# HELP a_total Things.
# TYPE a_total counter
a_total 5
b{reason="x y",kind="{}"} 2.5
b{reason="z"} 1
broken
h_bucket{le="0.001"} 10
h_bucket{shard="1",le="0.01"} 90
h_bucket{le="+Inf"} 100
h_sum 3
h_count 100
)";

TEST(MetricSamplesTest, SumsOverLabelsAndProcesses) {
  MetricSamples samples;
  samples.Add(kText);
  EXPECT_EQ(samples.Sum("a_total"), 5);
  EXPECT_EQ(samples.Sum("b"), 3.5);
  EXPECT_EQ(samples.Max("b"), 2.5);
  EXPECT_EQ(samples.Sum("c"), std::nullopt);
  EXPECT_EQ(samples.Buckets("h"), (std::map<double, double>{{0.001, 10}, {0.01, 90}, {kInf, 100}}));
  EXPECT_TRUE(samples.Buckets("a_total").empty());
  samples.Add(kText);
  EXPECT_EQ(samples.Sum("a_total"), 10);
  EXPECT_EQ(samples.Max("b"), 2.5);
  EXPECT_EQ(samples.Buckets("h").at(0.01), 180);
}

TEST(QuantileTest, InterpolatesInsideTheBucket) {
  const std::map<double, double> now = {{1, 50}, {2, 100}, {kInf, 100}};
  EXPECT_DOUBLE_EQ(*Quantile(0.5, {}, now), 1);
  EXPECT_DOUBLE_EQ(*Quantile(0.25, {}, now), 0.5);
  EXPECT_DOUBLE_EQ(*Quantile(0.99, {}, now), 1.98);
}

TEST(QuantileTest, CountsOnlyWhatIsNew) {
  const std::map<double, double> before = {{1, 50}, {2, 50}, {kInf, 50}};
  const std::map<double, double> now = {{1, 50}, {2, 60}, {kInf, 60}};
  EXPECT_DOUBLE_EQ(*Quantile(0.5, before, now), 1.5);
  EXPECT_EQ(Quantile(0.5, now, now), std::nullopt);
  EXPECT_EQ(Quantile(0.5, {}, {}), std::nullopt);
  // After a restart a process has fewer observations than before.
  EXPECT_EQ(Quantile(0.5, now, before), std::nullopt);
}

TEST(QuantileTest, AboveTheLastBoundIsInfinite) {
  EXPECT_TRUE(std::isinf(*Quantile(0.99, {}, {{1, 50}, {kInf, 100}})));
}

}  // namespace metrics_text_test
}  // namespace escapement::escctl
