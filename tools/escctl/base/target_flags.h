// Flags that say where events go: one for each kind of target, and --target for what the others
// cannot say.

#ifndef TOOLS_ESCCTL_BASE_TARGET_FLAGS_H_
#define TOOLS_ESCCTL_BASE_TARGET_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::escctl {

class TargetKindFlags {
 public:
  void Add(CLI::App& command);

  // nullopt: none of the flags is given.
  absl::StatusOr<std::optional<v1::Target>> Target() const;

 private:
  absl::StatusOr<v1::Target> Http() const;
  absl::StatusOr<v1::Target> Sqs() const;
  absl::StatusOr<v1::Target> Kafka() const;
  absl::StatusOr<v1::Target> Slack() const;
  absl::StatusOr<v1::Target> Email() const;
  absl::StatusOr<v1::Target> Json() const;

  std::string http_;
  std::string method_;
  std::vector<std::string> headers_;
  std::vector<std::string> secret_headers_;
  std::vector<std::string> signing_secrets_;
  std::string grpc_;
  std::string sqs_;
  std::string sqs_region_;
  std::string sqs_credentials_;
  std::string kafka_;
  std::string slack_;
  std::vector<std::string> email_;
  std::string smtp_;
  std::string from_;
  std::string subject_;
  std::string ping_;
  std::string json_;
};

// The text itself, or the content of a file, without a line end at its end, if it begins with '@'.
// For secrets: then they are in no list of processes and no shell's history.
absl::StatusOr<std::string> SecretOrFile(const std::string& text);

// INVALID_ARGUMENT if the payload of a new resource should be JSON and is not.
absl::Status CheckPayload(absl::string_view payload, absl::string_view content_type);

// Flags that schedules and events share: the target, the payload, and how delivery is tried.

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
