// Reads a small file as a whole.
//
// Threads: pure, except for the file system.

#ifndef COMMON_BASE_BOUNDED_FILE_H_
#define COMMON_BASE_BOUNDED_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace escapement {

// The bytes of the file. INVALID_ARGUMENT: it has more than `bytes_max`. NOT_FOUND: no such file.
// UNAVAILABLE: it cannot be read. Errors name the path and never quote the content. No copy of the
// content stays behind, so that the caller can wipe it.
absl::StatusOr<std::string> ReadBoundedFile(const std::string& path, size_t bytes_max);

}  // namespace escapement

#endif  // COMMON_BASE_BOUNDED_FILE_H_
