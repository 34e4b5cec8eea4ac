#include "common/secrets/key_ring.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/bounded_file.h"

namespace escapement {
namespace {

bool IsKeyId(absl::string_view id) {
  return !id.empty() && id.size() <= kSealingKeyIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '_' ||
                  c == '.';
         });
}

// Empty: not the base64 text of a key. The text must be exactly as an encoder writes it.
SecretText DecodeKey(absl::string_view text) {
  std::string decoded;
  std::string encoded;
  SecretText key;
  if (absl::Base64Unescape(text, &decoded) && decoded.size() == kSealingKeyBytes) {
    absl::Base64Escape(decoded, &encoded);
    if (encoded == text) key = SecretText(absl::string_view(decoded));
  }
  WipeText(decoded);
  WipeText(encoded);
  return key;
}

}  // namespace

absl::StatusOr<KeyRing> KeyRing::Parse(absl::string_view text, absl::string_view place) {
  std::vector<SealingKey> keys;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto refused = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(place, ":", number, ": ", why));
    };
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) return refused("the line must be `id: key`");
    const absl::string_view id = absl::StripAsciiWhitespace(line.substr(0, colon));
    if (!IsKeyId(id)) return refused("the id must be 1 to 32 of a-z, 0-9, '-', '_', '.'");
    SecretText key = DecodeKey(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (key.empty()) return refused("the key must be the base64 text of 32 bytes");
    for (const SealingKey& other : keys) {
      if (other.id == id) return refused("an earlier line has the same id");
      if (other.bytes.Equals(key)) return refused("an earlier line has the same key");
    }
    if (keys.size() == kSealingKeysMax)
      return refused(absl::StrCat("there are more than ", kSealingKeysMax, " keys"));
    keys.push_back({std::string(id), std::move(key)});
  }
  if (keys.empty()) return absl::InvalidArgumentError(absl::StrCat(place, " has no key"));
  return KeyRing(std::move(keys));
}

absl::StatusOr<KeyRing> KeyRing::Load(const std::string& path) {
  absl::StatusOr<std::string> text = ReadBoundedFile(path, kKeyRingFileBytesMax);
  if (!text.ok()) return text.status();
  const SecretText content = SecretText::TakeFrom(*text);
  return Parse(content.Reveal(), path);
}

const SealingKey* KeyRing::Find(absl::string_view id) const {
  for (const SealingKey& key : keys_) {
    if (key.id == id) return &key;
  }
  return nullptr;
}

}  // namespace escapement
