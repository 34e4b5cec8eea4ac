// KeyWriter and KeyReader: the one codec of keys. Encoded keys sort like their values, field by
// field.
//
// Integers are big-endian of fixed width. Times are signed microseconds since 1970 with the sign
// bit flipped. Text is escaped (0x00 → 0x00 0xff) and ended by 0x00 0x01. So no text is a prefix of
// another one's encoding, and texts sort like their unescaped bytes.

#ifndef COMMON_BASE_KEY_CODEC_H_
#define COMMON_BASE_KEY_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/byte_writer.h"
#include "common/base/uid.h"

namespace escapement {

class KeyWriter {
 public:
  KeyWriter() : key_(kUsualBytes) {}
  explicit KeyWriter(absl::string_view prefix) : KeyWriter() { Raw(prefix); }

  KeyWriter& U8(uint8_t value) { return Integer(value); }
  KeyWriter& U16(uint16_t value) { return Integer(value); }
  KeyWriter& U32(uint32_t value) { return Integer(value); }
  KeyWriter& U64(uint64_t value) { return Integer(value); }
  // Rounded down to microseconds; infinities become the extremes.
  KeyWriter& Time(absl::Time value) {
    return U64(static_cast<uint64_t>(absl::ToUnixMicros(value)) ^ kSign);
  }
  KeyWriter& Id(const Uid& uid) {
    std::memcpy(key_.Extend(Uid::kBytes), uid.bytes().data(), Uid::kBytes);
    return *this;
  }
  KeyWriter& Text(absl::string_view text);
  KeyWriter& Raw(absl::string_view bytes) {  // only as the first or the last field
    key_.Append(bytes);
    return *this;
  }

  std::string Take() { return key_.Take(); }

 private:
  friend class KeyReader;
  static constexpr uint64_t kSign = uint64_t{1} << 63;
  // Most keys fit into this. With the final zero byte it is one allocation of 64 bytes.
  static constexpr size_t kUsualBytes = 63;

  template <typename T>
  KeyWriter& Integer(T value) {
    StoreBigEndian(value, key_.Extend(sizeof(T)));
    return *this;
  }
  ByteWriter key_;
};

// Reads keys made by KeyWriter. After a failure (too short, bad escape) ok() is false and all
// further reads return zeros.
class KeyReader {
 public:
  explicit KeyReader(absl::string_view key) : rest_(key) {}

  uint8_t U8() { return Integer<uint8_t>(); }
  uint16_t U16() { return Integer<uint16_t>(); }
  uint32_t U32() { return Integer<uint32_t>(); }
  uint64_t U64() { return Integer<uint64_t>(); }
  absl::Time Time();
  Uid Id();
  std::string Text();
  absl::string_view Rest() { return rest_; }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  bool Need(size_t bytes) {
    if (rest_.size() >= bytes) return true;
    Fail();
    return false;
  }
  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  template <typename T>
  T Integer() {
    if (!Need(sizeof(T))) return 0;
    const T value = ReadBigEndian<T>(rest_);
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  absl::string_view rest_;
  bool ok_ = true;
};

// The smallest key greater than `key`; a range continues there.
std::string KeyAfter(absl::string_view key);

// The smallest key greater than every key with this prefix; empty (= no end) if there is none.
std::string PrefixEnd(std::string prefix);

}  // namespace escapement

#endif  // COMMON_BASE_KEY_CODEC_H_
