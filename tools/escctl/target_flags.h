// Flags that schedules and events share: the target, the payload, and how delivery is tried.

#ifndef TOOLS_ESCCTL_TARGET_FLAGS_H_
#define TOOLS_ESCCTL_TARGET_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "escapement/v1/resources.pb.h"

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

  std::string http_;
  std::string method_;
  std::vector<std::string> headers_;
  std::string grpc_;
  std::string payload_;
  std::string content_type_;
  std::string delivery_timeout_;
  std::string min_backoff_;
  std::string max_backoff_;
  int max_attempts_ = 0;
  int priority_ = -1;
  std::optional<bool> retry_keep_;
};

// Parses "90s" or "1h30m".
absl::StatusOr<google::protobuf::Duration> ParseDurationFlag(const std::string& name,
                                                             const std::string& text);

// The text itself, or the content of a file if it begins with '@'.
absl::StatusOr<std::string> TextOrFile(const std::string& text);

// Parses "k=v" pairs.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePairs(
    const std::string& flag, const std::vector<std::string>& pairs);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_TARGET_FLAGS_H_
