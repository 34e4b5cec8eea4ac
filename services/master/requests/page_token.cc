#include "services/master/requests/page_token.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "common/base/key_codec.h"
#include "common/base/stable_hash.h"
#include "common/status/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {

namespace {

uint64_t CheckOf(absl::string_view list, absl::string_view position) {
  return StableHash64(KeyWriter().Text(list).Raw(position).Take());
}

}  // namespace

std::string EncodePageToken(absl::string_view list, absl::string_view position) {
  return absl::WebSafeBase64Escape(KeyWriter().U64(CheckOf(list, position)).Raw(position).Take());
}

absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token) {
  if (token.empty()) return std::string();
  std::string bytes;
  if (absl::WebSafeBase64Unescape(token, &bytes)) {
    KeyReader reader(bytes);
    const uint64_t check = reader.U64();
    if (reader.ok()) {
      std::string position(reader.Rest());
      // Unescaping also takes padding, blanks and unused bits, so only the token's own text counts.
      if (check == CheckOf(list, position) && token == EncodePageToken(list, position))
        return position;
    }
  }
  return InvalidField("page_token",
                      "does not belong to this list with these arguments; start again without it");
}

absl::StatusOr<int32_t> ReadPageSize(int32_t page_size) {
  if (page_size < 0) return InvalidField("page_size", "must not be negative");
  return page_size == 0 ? kPageSizeDefault : std::min(page_size, kPageSizeMax);
}

}  // namespace escapement::master
