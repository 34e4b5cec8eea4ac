// Flags about throttling, and about the events at the end of runs.

#ifndef TOOLS_ESCCTL_BASE_THROTTLE_FLAGS_H_
#define TOOLS_ESCCTL_BASE_THROTTLE_FLAGS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::escctl {

class ThrottleFlags {
 public:
  void Add(CLI::App& command);

  // Writes the given flags into the schedule and appends the mask paths that it set; an empty text
  // clears its field. `policy_name` turns an id into a policy's full name.
  absl::Status Apply(const std::function<std::string(const std::string&)>& policy_name,
                     v1::Schedule& schedule, std::vector<std::string>& fields) const;

 private:
  absl::Status ApplyWindow(v1::Schedule& schedule, std::vector<std::string>& fields) const;

  std::optional<std::string> policy_;
  std::optional<std::string> window_;
  std::optional<std::string> pacing_;
  std::optional<std::string> on_close_;
  std::optional<std::string> completion_;
  std::optional<std::string> on_complete_http_;
  std::optional<std::string> on_complete_grpc_;
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_THROTTLE_FLAGS_H_
