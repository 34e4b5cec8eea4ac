#include "common/base/utf8.h"

#include <cstdint>

namespace escapement {
namespace {

// Bytes that a character which begins with `first` has; 0: none begins with it.
size_t LengthOf(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// `text` has LengthOf its first byte. Overlong forms, surrogates and what is beyond U+10FFFF show
// in the second byte.
bool IsCharacter(absl::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return false;
  }
  if (text.size() < 3) return true;
  const auto second = static_cast<uint8_t>(text[1]);
  switch (static_cast<uint8_t>(text[0])) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second <= 0x9f;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second <= 0x8f;
    default:
      return true;
  }
}

}  // namespace

std::string Utf8Prefix(absl::string_view text, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < text.size() && at < bytes_max;) {
    const size_t length = LengthOf(static_cast<uint8_t>(text[at]));
    const bool whole = length > 0 && at + length <= text.size();
    if (whole && IsCharacter(text.substr(at, length))) {
      if (at + length > bytes_max) break;
      out.append(text.data() + at, length);
      at += length;
    } else {
      out.push_back('?');
      ++at;
    }
  }
  return out;
}

}  // namespace escapement
