#include "common/base/key_codec.h"

#include <algorithm>

#include "common/base/proto_time.h"

namespace escapement {

KeyWriter& KeyWriter::Text(absl::string_view text) {
  for (size_t zero = text.find('\0'); zero != absl::string_view::npos; zero = text.find('\0')) {
    key_.Append(text.substr(0, zero + 1));
    key_.Append("\xff");
    text.remove_prefix(zero + 1);
  }
  char* const out = key_.Extend(text.size() + 2);
  char* const end = std::copy(text.begin(), text.end(), out);
  end[0] = '\0';
  end[1] = '\x01';
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
  // Most texts have no zero; a uid in the place of a text may have many.
  std::string text(rest_.substr(0, rest_.find('\0')));
  for (size_t i = text.size(); i + 1 < rest_.size(); ++i) {
    if (rest_[i] == '\0') {
      const char mark = rest_[++i];
      if (mark == '\x01') {
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
