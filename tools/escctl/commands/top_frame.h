// One frame of `escctl top` as text. Pure.
//
// A figure that nobody measures is shown as "-".

#ifndef TOOLS_ESCCTL_COMMANDS_TOP_FRAME_H_
#define TOOLS_ESCCTL_COMMANDS_TOP_FRAME_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "escapement/v1/policy_service.pb.h"
#include "tools/escctl/commands/metrics_text.h"

namespace escapement::escctl {

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
