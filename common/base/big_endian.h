// Integers of fixed width, big-endian, in byte strings.

#ifndef COMMON_BASE_BIG_ENDIAN_H_
#define COMMON_BASE_BIG_ENDIAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

template <typename T>
void AppendBigEndian(std::string* out, T value) {
  char bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * (sizeof(T) - 1 - i))));
  out->append(bytes, sizeof(T));
}

// `bytes` must hold at least sizeof(T) bytes.
template <typename T>
T ReadBigEndian(absl::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((value << 8) | static_cast<unsigned char>(bytes[i]));
  }
  return value;
}

}  // namespace escapement

#endif  // COMMON_BASE_BIG_ENDIAN_H_
