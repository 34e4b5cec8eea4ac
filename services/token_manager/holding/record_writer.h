// RecordWriter: the bytes of a protobuf message, without the message.
//
// Setting the fields of a message and serializing it costs about five times as much. Use it for
// records of which each event writes one. If the fields come in ascending order, the bytes are
// those of SerializeAsString; a test of each user must check that.
//
// Threads: one at a time.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_RECORD_WRITER_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_RECORD_WRITER_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace escapement::token_manager {

class RecordWriter {
 public:
  // Up to `usual_bytes` bytes need one allocation, or none if they are at most 15.
  explicit RecordWriter(size_t usual_bytes) : bytes_(usual_bytes, '\0') {}

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
    if (!value.empty()) std::memcpy(Extend(value.size()), value.data(), value.size());
    return *this;
  }

  size_t size() const { return used_; }
  // All that was written. Write nothing more.
  std::string Take() {
    bytes_.resize(used_);
    return std::move(bytes_);
  }

 private:
  // Seven bits a byte, the lowest first.
  void Varint(uint64_t value) {
    char* out = Extend(static_cast<size_t>(std::bit_width(value | 1) + 6) / 7);
    for (; value >= 128; value >>= 7) *out++ = static_cast<char>(value | 128);
    *out = static_cast<char>(value);
  }
  // Room for `size` more bytes.
  char* Extend(size_t size) {
    if (bytes_.size() - used_ < size) bytes_.resize(std::max(2 * bytes_.size(), used_ + size));
    used_ += size;
    return bytes_.data() + used_ - size;
  }

  std::string bytes_;  // longer than what was written
  size_t used_ = 0;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_RECORD_WRITER_H_
