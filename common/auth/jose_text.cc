#include "common/auth/jose_text.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"

namespace escapement::auth {
namespace {

// The parser keeps its own stack on the heap; this bounds what comes out of it.
bool IsNestedTooDeep(absl::string_view text) {
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
      if (++depth > kJoseDepthMax) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> DecodeBase64Url(absl::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes)) return std::nullopt;
  // The decoder also takes padding, blanks and unused bits.
  if (absl::WebSafeBase64Escape(bytes) != text) return std::nullopt;
  return bytes;
}

std::optional<nlohmann::json> ParseJoseObject(absl::string_view text) {
  // The parser would skip a byte order mark.
  if (IsNestedTooDeep(text) || text.empty() || text[0] == '\xef') return std::nullopt;
  bool has_name_twice = false;
  std::vector<std::set<std::string>> names;  // the names in each open object
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second)
      has_name_twice = true;
    return true;
  };
  nlohmann::json value =
      nlohmann::json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (!value.is_object() || has_name_twice) return std::nullopt;
  return value;
}

const std::string* TextIn(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

}  // namespace escapement::auth
