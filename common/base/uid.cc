#include "common/base/uid.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace escapement {

std::string Uid::ToHex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(2 * kBytes, '\0');
  char* digit = hex.data();
  for (const char c : bytes_) {
    const auto byte = static_cast<unsigned char>(c);
    *digit++ = kDigits[byte >> 4];
    *digit++ = kDigits[byte & 15];
  }
  return hex;
}

Uid Uid::FromHex(absl::string_view hex) {
  if (hex.size() != 2 * kBytes) return Uid();
  for (char c : hex) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return Uid();
  }
  return FromBytes(absl::HexStringToBytes(hex));
}

}  // namespace escapement
