// gzip (RFC 1952) of whole bodies, by zlib.
//
// Pure.

#ifndef COMMON_REST_GZIP_H_
#define COMMON_REST_GZIP_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::rest {

std::string Gzipped(absl::string_view plain);

// INVALID_ARGUMENT: not gzip, or cut short. RESOURCE_EXHAUSTED: more than `bytes_max` when
// unpacked; it stops there, so a small body cannot take much memory.
absl::StatusOr<std::string> Gunzipped(absl::string_view packed, size_t bytes_max);

}  // namespace escapement::rest

#endif  // COMMON_REST_GZIP_H_
