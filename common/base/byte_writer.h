// Bytes that are written piece by piece: integers of fixed width, big-endian, and ByteWriter.

#ifndef COMMON_BASE_BYTE_WRITER_H_
#define COMMON_BASE_BYTE_WRITER_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/string_view.h"

namespace escapement {

// T is an unsigned integer of at most 8 bytes.
template <typename T>
T BigEndian(T value) {
  static_assert(std::endian::native == std::endian::little && sizeof(T) <= 8);
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  return static_cast<T>(__builtin_bswap64(value));
}

// `out` must have room for sizeof(T) bytes.
template <typename T>
void StoreBigEndian(T value, char* out) {
  value = BigEndian(value);
  std::memcpy(out, &value, sizeof(T));
}

// `bytes` must hold at least sizeof(T) bytes.
template <typename T>
T ReadBigEndian(absl::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return BigEndian(value);
}

template <typename T>
void AppendBigEndian(std::string* out, T value) {
  char bytes[sizeof(T)];
  StoreBigEndian(value, bytes);
  out->append(bytes, sizeof(T));
}

// ByteWriter: a string that grows piece by piece. Short pieces cost a few instructions, where
// std::string::append costs a call.
class ByteWriter {
 public:
  // Up to `usual_bytes` bytes need one allocation.
  explicit ByteWriter(size_t usual_bytes) : bytes_(usual_bytes, '\0') {}

  // Makes room for `size` more bytes, which the caller writes before it calls again.
  ABSL_ATTRIBUTE_ALWAYS_INLINE char* Extend(size_t size) {
    if (bytes_.size() - used_ < size) Grow(size);
    char* const out = bytes_.data() + used_;
    used_ += size;
    return out;
  }
  void Append(absl::string_view bytes) {
    if (!bytes.empty()) std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }

  size_t size() const { return used_; }
  // Valid until the next call.
  absl::string_view written() const { return absl::string_view(bytes_).substr(0, used_); }
  void Clear() { used_ = 0; }

  // All that was written. Write nothing more.
  ABSL_ATTRIBUTE_ALWAYS_INLINE std::string Take() {
    bytes_.resize(used_);
    return std::move(bytes_);
  }

 private:
  ABSL_ATTRIBUTE_NOINLINE void Grow(size_t size) {
    bytes_.resize(std::max(2 * bytes_.size(), used_ + size));
  }

  std::string bytes_;  // longer than what was written
  size_t used_ = 0;
};

}  // namespace escapement

#endif  // COMMON_BASE_BYTE_WRITER_H_
