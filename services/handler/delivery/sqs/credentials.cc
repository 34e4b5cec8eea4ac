#include "services/handler/delivery/sqs/credentials.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace escapement::handler {

absl::StatusOr<SqsCredentials> ParseSqsCredentials(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 2));
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (parts.size() < 2 || parts[0].empty() || parts[1].empty() || !printable)
    return absl::InvalidArgumentError("the target's credentials are malformed");
  return SqsCredentials{.access_key_id = std::string(parts[0]),
                        .secret_access_key = std::string(parts[1]),
                        .session_token = std::string(parts.size() == 3 ? parts[2] : "")};
}

}  // namespace escapement::handler
