#include <unistd.h>

#include <string>

#include "common/metrics/metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace process_metrics_test {

using ::testing::ContainsRegex;

TEST(ProcessStatTest, TakesTheFieldsOfALineOfTheKernel) {
  // A program whose name has brackets and blanks; then the fields 3 to 24 of proc(5).
  const std::string line =
      "4711 (a ) b) S 1 4711 4711 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 9 0 12345 8192 3 "
      "18446744073709551615";
  ProcessStat stat;
  ASSERT_TRUE(ParseProcessStat(line, /*ticks_per_second=*/100, /*page_bytes=*/4096, &stat));
  EXPECT_DOUBLE_EQ(stat.cpu_seconds, 3);
  EXPECT_DOUBLE_EQ(stat.start_after_boot_seconds, 123.45);
  EXPECT_DOUBLE_EQ(stat.virtual_bytes, 8192);
  EXPECT_DOUBLE_EQ(stat.resident_bytes, 3 * 4096);
}

TEST(ProcessStatTest, OtherTextIsRefused) {
  ProcessStat stat;
  EXPECT_FALSE(ParseProcessStat("", 100, 4096, &stat));
  EXPECT_FALSE(ParseProcessStat("4711 (a) S 1 2", 100, 4096, &stat));
}

TEST(ProcessMetricsTest, TellsOfThisProcess) {
  Metrics metrics;
  const ProcessMetrics process(metrics);
  const std::string text = metrics.Serialize();
  EXPECT_THAT(text, ContainsRegex("\nprocess_cpu_seconds_total [0-9]"));
  EXPECT_THAT(text, ContainsRegex("\nprocess_resident_memory_bytes [1-9]"));
  EXPECT_THAT(text, ContainsRegex("\nprocess_virtual_memory_bytes [1-9]"));
  EXPECT_THAT(text, ContainsRegex("\nprocess_open_fds [1-9]"));
  EXPECT_THAT(text, ContainsRegex("\nprocess_max_fds [1-9]"));
  constexpr double kBeginOf2020 = 1577836800;
  EXPECT_GT(metrics.GetGauge("process_start_time_seconds", "")->Value(), kBeginOf2020);
}

}  // namespace process_metrics_test
}  // namespace escapement
