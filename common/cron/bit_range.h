// Bits of masks of values. Pure.

#ifndef COMMON_CRON_BIT_RANGE_H_
#define COMMON_CRON_BIT_RANGE_H_

#include <bit>
#include <cstdint>

namespace escapement::cron {

// `mask` must not be 0.
constexpr int LowestBit(uint64_t mask) { return std::countr_zero(mask); }
constexpr int HighestBit(uint64_t mask) { return 63 - std::countl_zero(mask); }

// The bits at or above (or: at or below) `bit`.
constexpr uint64_t BitsFrom(uint64_t mask, int bit) {
  return bit > 63 ? 0 : mask & (~uint64_t{0} << bit);
}
constexpr uint64_t BitsUpTo(uint64_t mask, int bit) {
  return bit < 0 ? 0 : mask & (~uint64_t{0} >> (63 - bit));
}

constexpr bool HasBit(uint64_t mask, int bit) { return ((mask >> bit) & 1) != 0; }

}  // namespace escapement::cron

#endif  // COMMON_CRON_BIT_RANGE_H_
