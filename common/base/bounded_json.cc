#include "common/base/bounded_json.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace escapement {
namespace {

// The parser has its stack on the heap, but then its values are as deep as the text.
bool IsNestedDeeper(absl::string_view text, size_t depth_max) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

nlohmann::json ParseBoundedJson(absl::string_view text, size_t depth_max,
                                const nlohmann::json::parser_callback_t& watch) {
  if (IsNestedDeeper(text, depth_max)) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
}

bool TakeJsonNumber(absl::string_view& text) {
  const auto take_digits = [&text] {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits;
  };
  absl::ConsumePrefix(&text, "-");
  const bool zero = absl::StartsWith(text, "0");
  const size_t digits = take_digits();
  if (digits == 0 || (zero && digits > 1)) return false;
  if (absl::ConsumePrefix(&text, ".") && take_digits() == 0) return false;
  if (!absl::ConsumePrefix(&text, "e") && !absl::ConsumePrefix(&text, "E")) return true;
  if (!absl::ConsumePrefix(&text, "+")) absl::ConsumePrefix(&text, "-");
  return take_digits() > 0;
}

}  // namespace escapement
