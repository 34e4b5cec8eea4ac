#include "common/kv/not_leader.h"

#include "absl/strings/str_cat.h"

namespace escapement::kv {
namespace {

// Stores and clients of different versions read this text.
constexpr absl::string_view kBefore = "not the leader; the leader is at [";
constexpr absl::string_view kAfter = "]";

}  // namespace

absl::Status NotLeader(absl::string_view address) {
  return absl::UnavailableError(absl::StrCat(kBefore, address, kAfter));
}

std::optional<std::string> LeaderAddressOf(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return std::nullopt;
  absl::string_view text = status.message();
  const size_t begin = text.find(kBefore);
  if (begin == absl::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + kBefore.size());
  // An IPv6 address has brackets of its own: the last one ends the text.
  const size_t end = text.rfind(kAfter);
  if (end == absl::string_view::npos) return std::nullopt;
  return std::string(text.substr(0, end));
}

}  // namespace escapement::kv
