// MessageWriter: the bytes of a protobuf message, without the message.
//
// Setting the fields of a message and serializing it costs about five times as much. Use it for
// records of which each event writes one. If the fields come in ascending order, the bytes are
// those of SerializeAsString; a test of each user must check that.
//
// Threads: one at a time.

#ifndef COMMON_BASE_MESSAGE_WRITER_H_
#define COMMON_BASE_MESSAGE_WRITER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/byte_writer.h"

namespace escapement {

class MessageWriter {
 public:
  // Up to `usual_bytes` bytes need one allocation, or none if they are at most 15.
  explicit MessageWriter(size_t usual_bytes) : bytes_(usual_bytes) {}

  // A field of type bool, uint32, uint64, int64 or an enum; int64 cast to uint64. Zero is not
  // written.
  MessageWriter& Number(uint32_t field, uint64_t value) {
    if (value == 0) return *this;
    Varint(field << 3);
    Varint(value);
    return *this;
  }
  // A field of type string or bytes. An empty one is not written.
  MessageWriter& Bytes(uint32_t field, absl::string_view value) {
    return value.empty() ? *this : Message(field, value);
  }
  // A field that is a message, serialized. It is written even if it is empty.
  MessageWriter& Message(uint32_t field, absl::string_view value) {
    char* const to = Room(field, value.size());
    if (!value.empty()) std::memcpy(to, value.data(), value.size());
    return *this;
  }
  // A field of `size` bytes, which the caller writes before it calls again.
  char* Room(uint32_t field, size_t size) {
    Varint(field << 3 | 2);
    Varint(size);
    return bytes_.Extend(size);
  }
  // Fields that are serialized already.
  MessageWriter& Fields(absl::string_view bytes) {
    bytes_.Append(bytes);
    return *this;
  }

  size_t size() const { return bytes_.size(); }
  // Valid until the next call.
  absl::string_view written() const { return bytes_.written(); }
  // Begins another message, in the same memory.
  MessageWriter& Clear() {
    bytes_.Clear();
    return *this;
  }

  // All that was written. Write nothing more.
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

#endif  // COMMON_BASE_MESSAGE_WRITER_H_
