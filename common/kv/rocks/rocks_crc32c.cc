// Computes RocksDB's checksums with ISA-L (docs/adr/0011). Every byte of the log is checksummed,
// and Debian's RocksDB is built for processors without an instruction for that.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "isa-l/crc.h"

namespace {

constexpr size_t kBytesMax = size_t{1} << 30;  // ISA-L takes lengths as int

}  // namespace

// Replaces rocksdb::crc32c::Extend through the linker's --wrap (BUILD.bazel). `crc` is the CRC-32C
// (RFC 3720) of earlier bytes; returns the CRC-32C of those bytes followed by `data`.
extern "C" uint32_t __wrap__ZN7rocksdb6crc32c6ExtendEjPKcm(uint32_t crc, const char* data,
                                                           size_t bytes) {
  // ISA-L only reads the data. Its register is the complement of the checksum.
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
