// SimRandom: a stream of random numbers that is the same for the same seed and name.
//
// Threads: none of its own; one at a time.

#ifndef COMMON_SIM_SIM_RANDOM_H_
#define COMMON_SIM_SIM_RANDOM_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/runtime/runtime.h"

namespace escapement::sim {

// SplitMix64 (Steele, Lea, Flood 2014).
class SimRandom : public Random {
 public:
  SimRandom(uint64_t seed, absl::string_view name)
      : state_(seed * 0x9e3779b97f4a7c15 ^ StableHash64(name)) {}

  uint64_t Next() override {
    state_ += 0x9e3779b97f4a7c15;
    return Mix(state_);
  }

  // True with a chance of `per_million` in a million.
  bool Chance(uint32_t per_million) { return Below(1'000'000) < per_million; }

  // Uniform in [low, high), in nanoseconds; `low` if the range is empty.
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const int64_t nanos = absl::ToInt64Nanoseconds(high - low);
    return nanos <= 0
               ? low
               : low + absl::Nanoseconds(static_cast<int64_t>(Below(static_cast<uint64_t>(nanos))));
  }

  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace escapement::sim

#endif  // COMMON_SIM_SIM_RANDOM_H_
