// RecordWriter: the bytes of a protobuf message, without the message.
//
// Setting the fields of a message and serializing it costs about five times as much. Use it for
// records of which each event writes one. If the fields come in ascending order, the bytes are
// those of SerializeAsString; a test of each user must check that.
//
// Threads: one at a time.

#ifndef COMMON_BASE_RECORD_WRITER_H_
#define COMMON_BASE_RECORD_WRITER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/byte_writer.h"

namespace escapement {

class RecordWriter {
 public:
  // Up to `usual_bytes` bytes need one allocation.
  explicit RecordWriter(size_t usual_bytes) : bytes_(usual_bytes) {}

  // A field of type bool, uint32, uint64, int64 or an enum; int64 cast to uint64. Zero is not
  // written.
  RecordWriter& Number(uint32_t field, uint64_t value) {
    if (value == 0) return *this;
    Varint(field << 3);
    Varint(value);
    return *this;
  }
  // A field of type string or bytes. An empty one is not written.
  RecordWriter& Bytes(uint32_t field, absl::string_view value) {
    return value.empty() ? *this : Message(field, value);
  }
  // A field that is a message, serialized. It is written even if it is empty.
  RecordWriter& Message(uint32_t field, absl::string_view value) {
    Varint(field << 3 | 2);
    Varint(value.size());
    bytes_.Append(value);
    return *this;
  }

  std::string Take() { return bytes_.Take(); }

 private:
  // Seven bits a byte, the lowest first.
  void Varint(uint64_t value) {
    const auto size = static_cast<size_t>(std::bit_width(value | 1) + 6) / 7;
    char* out = bytes_.Extend(size);
    for (; value >= 128; value >>= 7) *out++ = static_cast<char>(value | 128);
    *out = static_cast<char>(value);
  }
  ByteWriter bytes_;
};

}  // namespace escapement

#endif  // COMMON_BASE_RECORD_WRITER_H_
