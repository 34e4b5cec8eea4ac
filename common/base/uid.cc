#include "common/base/uid.h"

#include <array>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace escapement {
namespace {

// Each emitted event has such an id. absl::BytesToHexString takes 156 instructions more.
constexpr std::array<std::array<char, 2>, 256> kHexPairs = [] {
  constexpr char kDigits[] = "0123456789abcdef";
  std::array<std::array<char, 2>, 256> pairs{};
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {kDigits[i >> 4], kDigits[i & 15]};
  return pairs;
}();

}  // namespace

std::string Uid::ToHex() const {
  std::string hex(2 * kBytes, '\0');
  char* pair = hex.data();
  for (const char c : bytes_) {
    std::memcpy(pair, kHexPairs[static_cast<unsigned char>(c)].data(), 2);
    pair += 2;
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
