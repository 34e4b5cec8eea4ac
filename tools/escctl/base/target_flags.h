// Flags that schedules and events share: the target, the payload, and how delivery is tried.

#ifndef TOOLS_ESCCTL_BASE_TARGET_FLAGS_H_
#define TOOLS_ESCCTL_BASE_TARGET_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "escapement/v1/resources.pb.h"
#include "tools/escctl/base/target_kind_flags.h"

namespace escapement::escctl {

class TargetFlags {
 public:
  void Add(CLI::App& command);
  void AddRetryKeep(CLI::App& command);  // only for schedules

  // Writes the given flags into a Schedule or an Event and appends the mask paths that it set.
  absl::Status Apply(v1::Schedule& schedule, std::vector<std::string>& fields) const;
  absl::Status Apply(v1::Event& event) const;

 private:
  template <typename Message>
  absl::Status ApplyTo(Message& message, std::vector<std::string>& fields) const;
  template <typename Message>
  absl::Status ApplyRetry(Message& message, std::vector<std::string>& fields) const;

  TargetKindFlags kind_;
  std::string payload_;
  std::string content_type_;
  std::string delivery_timeout_;
  std::string min_backoff_;
  std::string max_backoff_;
  int max_attempts_ = 0;
  int priority_ = -1;
  std::optional<bool> retry_keep_;
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_TARGET_FLAGS_H_
