#include <cmath>

#include "gtest/gtest.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl {
namespace metrics_text_test {

TEST(MetricsTextTest, ReadsNamesLabelsAndValues) {
  const auto samples = ReadMetrics(R"(# HELP a_total Things.
# TYPE a_total counter
a_total 5
b{reason="x y",kind="{}"} 2.5 1800000000
c{file="a\\b\"c\nd"} +Inf
)");
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].name, "a_total");
  EXPECT_EQ(samples[0].value, 5);
  EXPECT_EQ(samples[0].Label("reason"), "");
  EXPECT_EQ(samples[1].Label("reason"), "x y");
  EXPECT_EQ(samples[1].Label("kind"), "{}");
  EXPECT_EQ(samples[1].value, 2.5);
  EXPECT_EQ(samples[2].Label("file"), "a\\b\"c\nd");
  EXPECT_TRUE(std::isinf(samples[2].value));
}

TEST(MetricsTextTest, SkipsLinesThatCannotBeRead) {
  const auto samples = ReadMetrics("broken\na{b=\"c 1\na{b} 2\na{b=\"c\" 3\na x\n\na 4");
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].value, 4);
}

}  // namespace metrics_text_test
}  // namespace escapement::escctl
