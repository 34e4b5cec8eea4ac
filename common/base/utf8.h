// Text of others, made fit for the `string` fields of records: those must be valid UTF-8, or the
// record cannot be read again.
//
// Pure.

#ifndef COMMON_BASE_UTF8_H_
#define COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

// The whole characters in the first `bytes_max` bytes of `text`; each byte that belongs to no
// character (RFC 3629) is a '?'. Valid text that is short enough is unchanged.
std::string Utf8Prefix(absl::string_view text, size_t bytes_max);

}  // namespace escapement

#endif  // COMMON_BASE_UTF8_H_
