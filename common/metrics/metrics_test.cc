#include "common/metrics/metrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace metrics_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, SerializesEveryKindWithItsLabels) {
  Metrics metrics;
  metrics.GetCounter("escapement_test_sent_total", "Sent.", {{"lane", "retry"}})->Increment(3);
  metrics.GetGauge("escapement_test_loaded_events", "Loaded.")->Set(7);
  metrics.GetHistogram("escapement_test_lateness_seconds", "Late.", {0.001, 0.01})->Observe(0.005);
  const std::string text = metrics.Serialize();
  EXPECT_THAT(text, HasSubstr("# TYPE escapement_test_sent_total counter"));
  EXPECT_THAT(text, HasSubstr("escapement_test_sent_total{lane=\"retry\"} 3"));
  EXPECT_THAT(text, HasSubstr("escapement_test_loaded_events 7"));
  EXPECT_THAT(text, HasSubstr("escapement_test_lateness_seconds_bucket{le=\"0.01\"} 1"));
}

TEST(MetricsTest, TheSameNameAndLabelsAreTheSameChild) {
  Metrics metrics;
  Counter* a = metrics.GetCounter("escapement_test_total", "One.");
  EXPECT_EQ(a, metrics.GetCounter("escapement_test_total", "Another help text."));
  EXPECT_NE(a, metrics.GetCounter("escapement_test_total", "One.", {{"x", "1"}}));
  const std::string text = metrics.Serialize();
  EXPECT_EQ(text.find("# HELP escapement_test_total"), text.rfind("# HELP escapement_test_total"));
}

TEST(MetricsDeathTest, LabelsOfTargetsAreRefused) {
  Metrics metrics;
  for (const absl::string_view label : kTargetLabels) {
    const MetricLabels labels = {{std::string(label), "x"}};
    const std::string says = absl::StrCat("has the label ", label);
    EXPECT_DEATH(metrics.GetCounter("escapement_test_total", "", labels), says);
    EXPECT_DEATH(metrics.GetGauge("escapement_test", "", labels), says);
    EXPECT_DEATH(metrics.GetHistogram("escapement_test_seconds", "", {1}, labels), says);
  }
}

TEST(MetricsTest, CollectorsRunBeforeEachSerializeUntilTheirHandleGoes) {
  Metrics metrics;
  Gauge* gauge = metrics.GetGauge("escapement_test_depth", "Depth.");
  int runs = 0;
  auto handle = metrics.AddCollector([&] { gauge->Set(++runs); });
  EXPECT_THAT(metrics.Serialize(), HasSubstr("escapement_test_depth 1"));
  handle.reset();
  EXPECT_THAT(metrics.Serialize(), Not(HasSubstr("escapement_test_depth 2")));
}

TEST(MetricsTest, ManyObservationsCountInTheBucketOfTheirValue) {
  Metrics metrics;
  Histogram* waits = metrics.GetHistogram("escapement_test_wait_seconds", "Wait.", {0.1, 1});
  waits->Observe(0.1, 3);
  waits->Observe(5, 2);
  waits->Observe(0.2);
  const std::string text = metrics.Serialize();
  EXPECT_THAT(text, HasSubstr("escapement_test_wait_seconds_bucket{le=\"0.1\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("escapement_test_wait_seconds_bucket{le=\"1\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("escapement_test_wait_seconds_bucket{le=\"+Inf\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("escapement_test_wait_seconds_sum 10.5\n"));
}

TEST(MetricsTest, RemovedGaugeIsNotShownAndItsNameCanBeUsedAgain) {
  Metrics metrics;
  metrics.GetGauge("escapement_test_info", "Info.", {{"version", "1"}})->Set(1);
  metrics.RemoveGauge("escapement_test_info", {{"version", "1"}});
  metrics.GetGauge("escapement_test_info", "Info.", {{"version", "2"}})->Set(1);
  const std::string text = metrics.Serialize();
  EXPECT_THAT(text, Not(HasSubstr("version=\"1\"")));
  EXPECT_THAT(text, HasSubstr("escapement_test_info{version=\"2\"} 1\n"));
}

}  // namespace metrics_test
}  // namespace escapement
