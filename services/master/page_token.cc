#include "services/master/page_token.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "common/base/key_codec.h"
#include "common/base/stable_hash.h"
#include "common/status/errors.h"
#include "services/master/limits.h"

namespace escapement::master {

std::string EncodePageToken(absl::string_view list, absl::string_view position) {
  return absl::WebSafeBase64Escape(KeyWriter().U64(StableHash64(list)).Raw(position).Take());
}

absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token) {
  if (token.empty()) return std::string();
  std::string bytes;
  if (absl::WebSafeBase64Unescape(token, &bytes)) {
    KeyReader reader(bytes);
    const uint64_t check = reader.U64();
    if (reader.ok() && check == StableHash64(list) && !reader.Rest().empty())
      return std::string(reader.Rest());
  }
  return InvalidField("page_token", "was not given by this list with these arguments");
}

absl::StatusOr<int32_t> ReadPageSize(int32_t page_size) {
  if (page_size < 0) return InvalidField("page_size", "must not be negative");
  return page_size == 0 ? kPageSizeDefault : std::min(page_size, kPageSizeMax);
}

}  // namespace escapement::master
