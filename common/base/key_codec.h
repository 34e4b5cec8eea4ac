// Integers of fixed width, big-endian, in byte strings.

#ifndef COMMON_BASE_KEY_CODEC_H_
#define COMMON_BASE_KEY_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"

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

// KeyWriter and KeyReader: the one codec of keys. Encoded keys sort like their values, field by
// field.
//
// Integers are big-endian of fixed width. Times are signed microseconds since 1970 with the sign
// bit flipped. Text is escaped (0x00 → 0x00 0xff) and ended by 0x00 0x01. So no text is a prefix of
// another one's encoding, and texts sort like their unescaped bytes.

class KeyWriter {
 public:
  KeyWriter() { key_.reserve(kUsualBytes); }
  explicit KeyWriter(std::string prefix) : key_(std::move(prefix)) {}

  KeyWriter& U8(uint8_t value);
  KeyWriter& U16(uint16_t value);
  KeyWriter& U32(uint32_t value);
  KeyWriter& U64(uint64_t value);
  // Rounded down to microseconds; infinities become the extremes.
  KeyWriter& Time(absl::Time value);
  KeyWriter& Id(const Uid& uid);
  KeyWriter& Text(absl::string_view text);
  KeyWriter& Raw(absl::string_view bytes);  // only as the last field

  std::string Take() { return std::move(key_); }

 private:
  // Most keys fit into this. With the final zero byte it is one allocation of 64 bytes.
  static constexpr size_t kUsualBytes = 63;
  std::string key_;
};

// Reads keys made by KeyWriter. After a failure (too short, bad escape) ok() is false and all
// further reads return zeros.
class KeyReader {
 public:
  explicit KeyReader(absl::string_view key) : rest_(key) {}

  uint8_t U8();
  uint16_t U16();
  uint32_t U32();
  uint64_t U64();
  absl::Time Time();
  Uid Id();
  std::string Text();
  absl::string_view Rest() { return rest_; }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  bool Need(size_t bytes);
  absl::string_view rest_;
  bool ok_ = true;
};

// The smallest key greater than `key`; a range continues there.
std::string KeyAfter(absl::string_view key);

// The smallest key greater than every key with this prefix; empty (= no end) if there is none.
std::string PrefixEnd(std::string prefix);

}  // namespace escapement

#endif  // COMMON_BASE_KEY_CODEC_H_
