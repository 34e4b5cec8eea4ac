#include "common/base/key_codec.h"

#include <cstring>

#include "common/base/proto_time.h"

namespace escapement {
namespace {

constexpr char kTextEnd[] = {'\0', '\x01'};

// The place of the first zero; the size if there is none.
size_t ZeroIn(absl::string_view text) {
  if (text.empty()) return 0;
  const void* const zero = std::memchr(text.data(), '\0', text.size());
  return zero == nullptr ? text.size()
                         : static_cast<size_t>(static_cast<const char*>(zero) - text.data());
}

}  // namespace

KeyWriter& KeyWriter::Text(absl::string_view text) {
  for (size_t zero = ZeroIn(text); zero < text.size(); zero = ZeroIn(text)) {
    key_.Append(text.substr(0, zero + 1));
    key_.Append("\xff");
    text.remove_prefix(zero + 1);
  }
  key_.Append(text);
  std::memcpy(key_.Extend(2), kTextEnd, 2);
  return *this;
}

absl::Time KeyReader::Time() { return FromMicros(static_cast<int64_t>(U64() ^ KeyWriter::kSign)); }
Uid KeyReader::Id() {
  if (!Need(Uid::kBytes)) return Uid();
  const Uid uid = Uid::FromBytes(rest_.substr(0, Uid::kBytes));
  rest_.remove_prefix(Uid::kBytes);
  return uid;
}
std::string KeyReader::Text() {
  if (rest_.size() >= 2 && std::memcmp(rest_.data(), kTextEnd, 2) == 0) {
    rest_.remove_prefix(2);
    return std::string();
  }
  // Most texts have no zero; a uid in the place of a text may have many.
  std::string text(rest_.substr(0, ZeroIn(rest_)));
  for (size_t i = text.size(); i + 1 < rest_.size(); ++i) {
    if (rest_[i] == '\0') {
      const char mark = rest_[++i];
      if (mark == kTextEnd[1]) {
        rest_.remove_prefix(i + 1);
        return text;
      }
      if (mark != '\xff') break;
      text.push_back('\0');
    } else {
      text.push_back(rest_[i]);
    }
  }
  Fail();
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
