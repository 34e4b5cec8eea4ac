#include "services/handler/delivery/sqs/sqs_text.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace escapement::handler {
namespace {

constexpr size_t kSqsIdBytesMax = 128;

// The bytes of the character of at least two bytes at the front, or 0 if SQS does not take it.
size_t BytesOfCharacter(const unsigned char* bytes, size_t left) {
  const unsigned char lead = bytes[0];
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || size > left) return 0;
  uint32_t character = lead & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
    character = character << 6 | (bytes[i] & 0x3f);
  }
  constexpr uint32_t kFirstOfSize[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = character >= kFirstOfSize[size] && character <= 0x10ffff &&
                     !(character >= 0xd800 && character <= 0xdfff) && character != 0xfffe &&
                     character != 0xffff;
  return valid ? size : 0;
}

// True for those characters that JSON escapes and SQS takes.
constexpr bool NeedsEscape(char c) {
  return c == '"' || c == '\\' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

bool IsSqsText(absl::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const unsigned char byte = bytes[i];
    if (byte < 0x80) {
      if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') return false;
      ++i;
      continue;
    }
    const size_t size = BytesOfCharacter(bytes + i, text.size() - i);
    if (size == 0) return false;
    i += size;
  }
  return true;
}

void AppendJsonString(absl::string_view text, std::string* json) {
  json->push_back('"');
  while (!text.empty()) {
    const auto* const plain_end = std::find_if(text.begin(), text.end(), &NeedsEscape);
    const auto plain = static_cast<size_t>(plain_end - text.begin());
    json->append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    json->push_back('\\');
    const char c = text.front();
    json->push_back(c == '\t' ? 't' : c == '\n' ? 'n' : c == '\r' ? 'r' : c);
    text.remove_prefix(1);
  }
  json->push_back('"');
}

std::string SqsIdOf(absl::string_view text) {
  if (!text.empty() && text.size() <= kSqsIdBytesMax &&
      std::all_of(text.begin(), text.end(),
                  [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); })) {
    return std::string(text);
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

}  // namespace escapement::handler
