#include "common/base/uid.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/base/key_codec.h"

namespace escapement {

Uid Uid::FromHalves(uint64_t high, uint64_t low) {
  std::string bytes;
  AppendBigEndian(&bytes, high);
  AppendBigEndian(&bytes, low);
  return FromBytes(bytes);
}

std::string Uid::ToHex() const { return absl::BytesToHexString(bytes()); }

Uid Uid::FromHex(absl::string_view hex) {
  if (hex.size() != 2 * kBytes) return Uid();
  for (char c : hex) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return Uid();
  }
  return FromBytes(absl::HexStringToBytes(hex));
}

}  // namespace escapement
