// Hashes that are stored or sent. XXH3 gives the same value on every machine and in every version.

#ifndef COMMON_BASE_STABLE_HASH_H_
#define COMMON_BASE_STABLE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"

namespace escapement {

uint64_t StableHash64(absl::string_view bytes);

// XXH3-128, the high half first.
Uid StableHash128(absl::string_view bytes);

}  // namespace escapement

#endif  // COMMON_BASE_STABLE_HASH_H_
