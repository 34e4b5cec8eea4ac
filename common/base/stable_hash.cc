#include "common/base/stable_hash.h"

#include <xxhash.h>

namespace escapement {

uint64_t StableHash64(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Uid StableHash128(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return Uid::FromHalves(hash.high64, hash.low64);
}

}  // namespace escapement
