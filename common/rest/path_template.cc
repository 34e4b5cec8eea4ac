#include "common/rest/path_template.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "common/status/errors.h"

namespace escapement::rest {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::Status BadTemplate(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("path template ", text, ": ", why));
}

}  // namespace

std::optional<std::string> PercentDecoded(absl::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      decoded.push_back(' ');
    } else if (text[i] != '%') {
      decoded.push_back(text[i]);
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return decoded;
}

absl::StatusOr<RequestPath> RequestPath::Parse(absl::string_view path) {
  if (path.empty() || path[0] != '/') return InvalidField("path", "must begin with '/'");
  path.remove_prefix(1);
  RequestPath parsed;
  const size_t colon = path.rfind(':');
  if (colon != absl::string_view::npos && path.find('/', colon) == absl::string_view::npos) {
    parsed.verb = std::string(path.substr(colon + 1));
    path = path.substr(0, colon);
  }
  for (const absl::string_view segment : absl::StrSplit(path, '/')) {
    std::optional<std::string> decoded = PercentDecoded(segment, false);
    if (!decoded.has_value()) {
      return InvalidField("path", "has a '%' that is not followed by two hexadecimal digits");
    }
    if (decoded->find('/') != std::string::npos || HasControlCharacters(*decoded)) {
      return InvalidField("path", "has a segment with a '/', a control character or invalid UTF-8");
    }
    parsed.segments.push_back(*std::move(decoded));
  }
  return parsed;
}

absl::StatusOr<PathTemplate> PathTemplate::Parse(absl::string_view text) {
  PathTemplate parsed;
  parsed.text_ = std::string(text);
  absl::string_view rest = text;
  const size_t colon = rest.rfind(':');
  if (colon != absl::string_view::npos) {
    parsed.verb_ = std::string(rest.substr(colon + 1));
    if (parsed.verb_.empty()) return BadTemplate(text, "an empty verb");
    rest = rest.substr(0, colon);
  }
  if (rest.empty() || rest[0] != '/') return BadTemplate(text, "must begin with '/'");
  rest.remove_prefix(1);
  bool open = false;  // within { }
  for (absl::string_view segment : absl::StrSplit(rest, '/')) {
    if (!segment.empty() && segment[0] == '{') {
      if (open) return BadTemplate(text, "a variable within a variable");
      open = true;
      segment.remove_prefix(1);
      const size_t name_end = segment.find_first_of("=}");
      const absl::string_view field = segment.substr(0, name_end);
      if (field.empty()) return BadTemplate(text, "a variable without a field");
      parsed.variables_.push_back(
          {.field = std::string(field), .begin = parsed.segments_.size(), .end = 0});
      if (name_end == absl::string_view::npos) return BadTemplate(text, "a '{' without '}'");
      segment = segment[name_end] == '=' ? segment.substr(name_end + 1) : "*}";
    }
    const bool closes = !segment.empty() && segment.back() == '}';
    if (closes) {
      if (!open) return BadTemplate(text, "a '}' without '{'");
      segment.remove_suffix(1);
    }
    if (segment.empty() || segment == "**" ||
        segment.find_first_of("{}=") != absl::string_view::npos) {
      return BadTemplate(text, "a segment must be a literal or '*'");
    }
    parsed.segments_.push_back({segment == "*" ? std::string() : std::string(segment)});
    if (closes) {
      parsed.variables_.back().end = parsed.segments_.size();
      open = false;
    }
  }
  if (open) return BadTemplate(text, "a '{' without '}'");
  return parsed;
}

std::optional<std::vector<std::pair<std::string, std::string>>> PathTemplate::Match(
    const RequestPath& path) const {
  if (path.segments.size() != segments_.size() || path.verb != verb_) return std::nullopt;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (path.segments[i].empty()) return std::nullopt;
    if (!segments_[i].literal.empty() && segments_[i].literal != path.segments[i])
      return std::nullopt;
  }
  std::vector<std::pair<std::string, std::string>> bindings;
  for (const Variable& variable : variables_) {
    std::string value = path.segments[variable.begin];
    for (size_t i = variable.begin + 1; i < variable.end; ++i)
      absl::StrAppend(&value, "/", path.segments[i]);
    bindings.emplace_back(variable.field, std::move(value));
  }
  return bindings;
}

std::vector<std::string> PathTemplate::Variables() const {
  std::vector<std::string> fields;
  for (const Variable& variable : variables_) fields.push_back(variable.field);
  return fields;
}

std::vector<std::string> PathTemplate::Segments() const {
  std::vector<std::string> literals;
  for (const Segment& segment : segments_) literals.push_back(segment.literal);
  return literals;
}

}  // namespace escapement::rest
