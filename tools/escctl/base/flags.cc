#include "tools/escctl/base/flags.h"

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace escapement::escctl {

absl::StatusOr<google::protobuf::Duration> ParseDurationFlag(const std::string& name,
                                                             const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": '", text, "' is not a duration such as 90s or 1h30m"));
  }
  google::protobuf::Duration message;
  const int64_t seconds = absl::ToInt64Seconds(duration);
  message.set_seconds(seconds);
  message.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(duration - absl::Seconds(seconds))));
  return message;
}

absl::StatusOr<std::string> TextOrFile(const std::string& text) {
  if (!absl::StartsWith(text, "@")) return text;
  std::ifstream in(text.substr(1), std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read ", text.substr(1)));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePairs(
    const std::string& flag, const std::vector<std::string>& pairs) {
  std::vector<std::pair<std::string, std::string>> parsed;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": '", pair, "' is not name=value"));
    }
    parsed.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return parsed;
}

}  // namespace escapement::escctl
