// HMAC-SHA256 (RFC 2104). A pure function.

#ifndef COMMON_BASE_HMAC_SHA256_H_
#define COMMON_BASE_HMAC_SHA256_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

// 32 bytes.
std::string HmacSha256(absl::string_view key, absl::string_view text);

}  // namespace escapement

#endif  // COMMON_BASE_HMAC_SHA256_H_
