// Findings from the metrics of processes. Pure.

#ifndef TOOLS_ESCCTL_DOCTOR_PROCESS_FINDINGS_H_
#define TOOLS_ESCCTL_DOCTOR_PROCESS_FINDINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl {

// The page of an alert.
std::string RunbookOf(absl::string_view alert);

// "2h46m40s".
std::string SecondsText(double seconds);

// The least value above 0 of a metric over all processes; nullopt if there is none.
std::optional<double> LeastOf(const Facts& facts, absl::string_view metric);

// Appends what the metrics show of processes, deliveries, policies, the store and certificates.
void AddProcessFindings(const Facts& facts, std::vector<Finding>& findings);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_DOCTOR_PROCESS_FINDINGS_H_
