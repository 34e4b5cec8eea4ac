// RocksDB's checksums by ISA-L (docs/adr/0011). Of the log each byte goes through one, and Debian's
// RocksDB is built for processors without an instruction for it.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "isa-l/crc.h"

namespace {

constexpr size_t kBytesMax = size_t{1} << 30;  // ISA-L counts by int

}  // namespace

// In place of rocksdb::crc32c::Extend, by the linker's --wrap (BUILD.bazel): the CRC-32C (RFC 3720)
// of what has the checksum `crc`, followed by `data`.
extern "C" uint32_t __wrap__ZN7rocksdb6crc32c6ExtendEjPKcm(uint32_t crc, const char* data,
                                                           size_t bytes) {
  // ISA-L reads only; its register is the checksum's complement.
  auto* at = reinterpret_cast<unsigned char*>(const_cast<char*>(data));
  uint32_t remainder = ~crc;
  for (size_t left = bytes; left > 0;) {
    const size_t step = std::min(left, kBytesMax);
    remainder = crc32_iscsi(at, static_cast<int>(step), remainder);
    at += step;
    left -= step;
  }
  return ~remainder;
}
