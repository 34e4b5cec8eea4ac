// Reads the text of /metrics, and what is needed of it for `escctl top`. Pure.

#ifndef TOOLS_ESCCTL_COMMANDS_METRICS_TEXT_H_
#define TOOLS_ESCCTL_COMMANDS_METRICS_TEXT_H_

#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

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

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_COMMANDS_METRICS_TEXT_H_
