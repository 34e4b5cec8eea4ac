// Flags that say where events go: one for each kind of target, and --target for what the others
// cannot say.

#ifndef TOOLS_ESCCTL_BASE_TARGET_KIND_FLAGS_H_
#define TOOLS_ESCCTL_BASE_TARGET_KIND_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
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

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_TARGET_KIND_FLAGS_H_
