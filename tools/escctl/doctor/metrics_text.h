// Reads the text of /metrics. Pure.

#ifndef TOOLS_ESCCTL_DOCTOR_METRICS_TEXT_H_
#define TOOLS_ESCCTL_DOCTOR_METRICS_TEXT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::escctl {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels = {};
  double value = 0;

  // "" if there is no such label.
  std::string Label(const std::string& label) const;
};

// The samples of one process, in their order. Lines that cannot be read are skipped.
std::vector<MetricSample> ReadMetrics(absl::string_view text);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_DOCTOR_METRICS_TEXT_H_
