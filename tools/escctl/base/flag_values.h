// How values of flags are read.

#ifndef TOOLS_ESCCTL_BASE_FLAG_VALUES_H_
#define TOOLS_ESCCTL_BASE_FLAG_VALUES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"

namespace escapement::escctl {

// Parses "90s" or "1h30m".
absl::StatusOr<google::protobuf::Duration> ParseDurationFlag(const std::string& name,
                                                             const std::string& text);

// The text itself, or the content of a file if it begins with '@'.
absl::StatusOr<std::string> TextOrFile(const std::string& text);

// Parses "k=v" pairs.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePairs(
    const std::string& flag, const std::vector<std::string>& pairs);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_FLAG_VALUES_H_
