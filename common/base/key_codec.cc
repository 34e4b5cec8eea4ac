#include "common/base/key_codec.h"

#include "common/base/proto_time.h"

namespace escapement {

namespace {
constexpr uint64_t kSignBit = uint64_t{1} << 63;
}  // namespace

KeyWriter& KeyWriter::U8(uint8_t value) {
  key_.push_back(static_cast<char>(value));
  return *this;
}
KeyWriter& KeyWriter::U16(uint16_t value) {
  AppendBigEndian(&key_, value);
  return *this;
}
KeyWriter& KeyWriter::U32(uint32_t value) {
  AppendBigEndian(&key_, value);
  return *this;
}
KeyWriter& KeyWriter::U64(uint64_t value) {
  AppendBigEndian(&key_, value);
  return *this;
}
KeyWriter& KeyWriter::Time(absl::Time value) {
  return U64(static_cast<uint64_t>(ToMicros(value)) ^ kSignBit);
}
KeyWriter& KeyWriter::Id(const Uid& uid) {
  key_.append(uid.bytes().data(), Uid::kBytes);
  return *this;
}
KeyWriter& KeyWriter::Text(absl::string_view text) {
  for (size_t zero = text.find('\0'); zero != absl::string_view::npos; zero = text.find('\0')) {
    key_.append(text.data(), zero + 1);
    key_.push_back('\xff');
    text.remove_prefix(zero + 1);
  }
  key_.append(text.data(), text.size());
  key_.append("\0\x01", 2);
  return *this;
}
KeyWriter& KeyWriter::Raw(absl::string_view bytes) {
  key_.append(bytes.data(), bytes.size());
  return *this;
}

bool KeyReader::Need(size_t bytes) {
  if (ok_ && rest_.size() >= bytes) return true;
  ok_ = false;
  rest_ = {};
  return false;
}
uint8_t KeyReader::U8() {
  if (!Need(1)) return 0;
  const uint8_t value = static_cast<uint8_t>(rest_[0]);
  rest_.remove_prefix(1);
  return value;
}
uint16_t KeyReader::U16() {
  if (!Need(2)) return 0;
  const auto value = ReadBigEndian<uint16_t>(rest_);
  rest_.remove_prefix(2);
  return value;
}
uint32_t KeyReader::U32() {
  if (!Need(4)) return 0;
  const auto value = ReadBigEndian<uint32_t>(rest_);
  rest_.remove_prefix(4);
  return value;
}
uint64_t KeyReader::U64() {
  if (!Need(8)) return 0;
  const auto value = ReadBigEndian<uint64_t>(rest_);
  rest_.remove_prefix(8);
  return value;
}
absl::Time KeyReader::Time() { return FromMicros(static_cast<int64_t>(U64() ^ kSignBit)); }
Uid KeyReader::Id() {
  if (!Need(Uid::kBytes)) return Uid();
  const Uid uid = Uid::FromBytes(rest_.substr(0, Uid::kBytes));
  rest_.remove_prefix(Uid::kBytes);
  return uid;
}
std::string KeyReader::Text() {
  std::string text;
  for (size_t zero = rest_.find('\0'); zero < rest_.size() - 1; zero = rest_.find('\0')) {
    const char mark = rest_[zero + 1];
    text.append(rest_.data(), mark == '\xff' ? zero + 1 : zero);
    rest_.remove_prefix(zero + 2);
    if (mark == '\x01') return text;
    if (mark != '\xff') break;
  }
  ok_ = false;
  rest_ = {};
  return std::string();
}

std::string KeyAfter(absl::string_view key) {
  std::string after;
  after.reserve(key.size() + 1);
  after.append(key.data(), key.size());
  after.push_back('\0');
  return after;
}

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty())
    prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace escapement
