// Reads the text of /metrics, and what is needed of it for `escctl top`. Pure.

#ifndef TOOLS_ESCCTL_COMMANDS_TOP_FRAME_H_
#define TOOLS_ESCCTL_COMMANDS_TOP_FRAME_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/v1/policy_service.pb.h"

namespace escapement::escctl {

// The samples of one reading, summed over their labels.
class MetricSamples {
 public:
  // Adds the samples of one process. Lines that cannot be read are skipped.
  void Add(absl::string_view text);

  // nullopt if no process has this metric.
  std::optional<double> Sum(absl::string_view name) const;
  // The largest value of one process.
  std::optional<double> Max(absl::string_view name) const;
  // The buckets of a histogram: the number of observations up to each bound.
  std::map<double, double> Buckets(absl::string_view histogram) const;

 private:
  std::map<std::string, double, std::less<>> sums_;
  std::map<std::string, double, std::less<>> maxima_;
  std::map<std::string, std::map<double, double>, std::less<>> buckets_;
};

// The bound of the bucket that holds the quantile, interpolated inside the bucket. The observations
// are those in `now` and not in `before`. Infinity if they lie above the last bound, nullopt if
// there are none.
std::optional<double> Quantile(double quantile, const std::map<double, double>& before,
                               const std::map<double, double>& now);

// One frame of `escctl top` as text. Pure.
//
// A figure that nobody measures is shown as "-".

// One reading of /metrics.
struct MetricsReading {
  absl::Time time;
  MetricSamples samples;
};

// The rate and the lateness are those since `before`. Without it there is no rate, and the lateness
// is that since the processes started.
std::string MetricsTable(const std::optional<MetricsReading>& before, const MetricsReading& now);

// Each policy, and each schedule that holds tokens or waits for them. A "+" marks a number that
// does not count everything. `now` is for ages.
std::string UsageTables(const std::vector<v1::PolicyUsage>& usages, absl::Time now);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_TOP_FRAME_H_
