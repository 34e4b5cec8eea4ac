#include "common/base/printable_text.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace escapement {
namespace {

constexpr absl::string_view kReplacement = "?";

struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
  bool valid = false;  // otherwise: one byte that belongs to no character
};

// The first character of `text`, which must not be empty. RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF.
Character FirstCharacter(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {lead, 1, false};
  uint32_t code = lead & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLowest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
    return {lead, 1, false};
  return {code, bytes, true};
}

bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

bool IsDirection(uint32_t code) {
  return code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

bool Stays(const Character& character) {
  return character.valid && !IsDirection(character.code) && !IsControl(character.code);
}

}  // namespace

std::string CleanText(absl::string_view bytes, size_t bytes_max) {
  std::string text;
  while (!bytes.empty()) {
    const Character character = FirstCharacter(bytes);
    absl::string_view shown = bytes.substr(0, character.bytes);
    if (!Stays(character))
      shown = character.valid && IsControl(character.code) ? " " : kReplacement;
    if (text.size() + shown.size() > bytes_max) break;
    text.append(shown.data(), shown.size());
    bytes.remove_prefix(character.bytes);
  }
  return text;
}

bool HasControlCharacters(absl::string_view text) {
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (!Stays(character)) return true;
    text.remove_prefix(character.bytes);
  }
  return false;
}

bool IsXmlText(absl::string_view text) {
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    const uint32_t code = character.code;
    const bool control = code < 0x20 && code != '\t' && code != '\n' && code != '\r';
    if (!character.valid || control || code == 0xfffe || code == 0xffff) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string EscapeForTerminal(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (Stays(character)) {
      escaped.append(text.data(), character.bytes);
    } else if (character.code == '\n') {
      escaped += "\\n";
    } else if (character.code == '\t') {
      escaped += "\\t";
    } else {
      escaped += character.code > 0xff ? absl::StrFormat("\\u%04x", character.code)
                                       : absl::StrFormat("\\x%02x", character.code);
    }
    text.remove_prefix(character.bytes);
  }
  return escaped;
}

std::string EscapeInsideQuotes(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (!character.valid) {
      escaped.append(kReplacement.data(), kReplacement.size());
    } else if (Stays(character) || character.code < 0x20) {
      escaped.append(text.data(), character.bytes);
    } else {
      escaped += absl::StrFormat("\\u%04x", character.code);
    }
    text.remove_prefix(character.bytes);
  }
  return escaped;
}

}  // namespace escapement
