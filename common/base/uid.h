// Uid: 16 bytes that name one incarnation of a schedule or a one-off event. Never reused.

#ifndef COMMON_BASE_UID_H_
#define COMMON_BASE_UID_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/byte_writer.h"

namespace escapement {

class Uid {
 public:
  static constexpr size_t kBytes = 16;

  Uid() = default;  // all zeros: no uid

  // `bytes` must have kBytes bytes.
  static Uid FromBytes(absl::string_view bytes) {
    Uid uid;
    std::memcpy(uid.bytes_.data(), bytes.data(), kBytes);
    return uid;
  }
  static Uid FromHalves(uint64_t high, uint64_t low) {
    Uid uid;
    StoreBigEndian(high, uid.bytes_.data());
    StoreBigEndian(low, uid.bytes_.data() + sizeof(high));
    return uid;
  }

  // 32 lower-case hex digits.
  std::string ToHex() const;
  // Returns the zero Uid if `hex` is not 32 hex digits.
  static Uid FromHex(absl::string_view hex);

  absl::string_view bytes() const { return {bytes_.data(), kBytes}; }
  bool is_zero() const { return *this == Uid(); }

  friend bool operator==(const Uid&, const Uid&) = default;
  friend std::strong_ordering operator<=>(const Uid& a, const Uid& b) {
    return std::memcmp(a.bytes_.data(), b.bytes_.data(), kBytes) <=> 0;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Uid& uid) {
    uint64_t halves[2];
    std::memcpy(halves, uid.bytes_.data(), kBytes);
    return H::combine(std::move(h), halves[0], halves[1]);
  }

 private:
  std::array<char, kBytes> bytes_ = {};
};

}  // namespace escapement

#endif  // COMMON_BASE_UID_H_
