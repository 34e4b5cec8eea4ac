// Page tokens: a token names the position at which the list goes on. So the server keeps nothing
// for a page, and the list stays right if resources change between two pages.
//
// A token is the base64url of a check and the position. The check covers the position and the list
// that the token belongs to (method, parent, filter). Pure.

#ifndef SERVICES_MASTER_REQUESTS_PAGE_TOKEN_H_
#define SERVICES_MASTER_REQUESTS_PAGE_TOKEN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::master {

// `list` names the list. `position` is not empty.
std::string EncodePageToken(absl::string_view list, absl::string_view position);

// The position; empty for the empty token. INVALID_ARGUMENT (page_token) if the token was changed
// in any character, or is another list's.
absl::StatusOr<std::string> DecodePageToken(absl::string_view list, absl::string_view token);

// The default if 0, cut at the maximum. INVALID_ARGUMENT (page_size) if negative.
absl::StatusOr<int32_t> ReadPageSize(int32_t page_size);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_PAGE_TOKEN_H_
