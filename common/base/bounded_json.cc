#include "common/base/bounded_json.h"

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

}  // namespace escapement
