// Times as integer microseconds since 1970: the unit of everything stored.

#ifndef COMMON_BASE_MICROS_H_
#define COMMON_BASE_MICROS_H_

#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace escapement {

// Rounds down; the infinities become the extremes of int64.
inline int64_t ToMicros(absl::Time time) { return absl::ToUnixMicros(time); }

// The extremes of int64 become the infinities.
inline absl::Time FromMicros(int64_t micros) {
  if (micros == std::numeric_limits<int64_t>::max()) return absl::InfiniteFuture();
  if (micros == std::numeric_limits<int64_t>::min()) return absl::InfinitePast();
  return absl::FromUnixMicros(micros);
}

}  // namespace escapement

#endif  // COMMON_BASE_MICROS_H_
