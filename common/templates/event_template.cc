#include "common/templates/event_template.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/bounded_json.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace escapement {
namespace {

using Json = nlohmann::json;

struct FactName {
  absl::string_view name;
  std::string EventFacts::*fact;
};
constexpr std::array kFacts = {
    FactName{"id", &EventFacts::id},           FactName{"source", &EventFacts::source},
    FactName{"time", &EventFacts::time},       FactName{"subject", &EventFacts::subject},
    FactName{"attempt", &EventFacts::attempt}, FactName{"index", &EventFacts::index},
    FactName{"count", &EventFacts::count}};

// Bytes that are no UTF-8 become U+FFFD.
std::string AsUtf8(absl::string_view text) {
  // A JSON string's text is replaced so by the library; the quotes and escapes go away again.
  const std::string quoted =
      Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return ParseBoundedJson(quoted).get<std::string>();
}

// Null if there is no such value.
const Json* Find(const Json& payload, const std::vector<std::string>& path) {
  const Json* at = &payload;
  for (const std::string& name : path) {
    size_t index = 0;
    if (at->is_object() && at->contains(name)) {
      at = &(*at)[name];
    } else if (at->is_array() && absl::SimpleAtoi(name, &index) && index < at->size()) {
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

std::string TextOf(const Json* value) {
  if (value == nullptr || value->is_null()) return "";
  if (value->is_string()) return value->get<std::string>();
  return value->dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<EventTemplate::Piece> EventTemplate::ReadPlace(absl::string_view place) {
  const absl::string_view name = absl::StripAsciiWhitespace(place);
  Piece piece;
  absl::string_view rest = name;
  if (absl::ConsumePrefix(&rest, "payload") && (rest.empty() || rest[0] == '.')) {
    piece.payload = true;
    if (!rest.empty()) piece.path = absl::StrSplit(rest.substr(1), '.');
    return piece;
  }
  for (const FactName& known : kFacts) {
    if (known.name == name) piece.fact = known.fact;
  }
  if (piece.fact == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("has an unknown place {{", CleanText(name, 40),
                     "}}; use payload, payload.{field}, id, source, time, subject, attempt, index "
                     "or count"));
  }
  return piece;
}

absl::StatusOr<EventTemplate> EventTemplate::Parse(absl::string_view text) {
  EventTemplate parsed;
  while (!text.empty()) {
    const size_t open = text.find("{{");
    if (open != 0) parsed.pieces_.push_back({.text = std::string(text.substr(0, open))});
    if (open == absl::string_view::npos) break;
    const size_t close = text.find("}}", open + 2);
    if (close == absl::string_view::npos)
      return absl::InvalidArgumentError("has \"{{\" without \"}}\"");
    ASSIGN_OR_RETURN(Piece place, ReadPlace(text.substr(open + 2, close - open - 2)));
    parsed.pieces_.push_back(std::move(place));
    text.remove_prefix(close + 2);
  }
  return parsed;
}

std::string EventTemplate::Fill(const EventFacts& facts, size_t bytes_max, Escape escape) const {
  const auto escaped = [escape](std::string text) {
    return escape == nullptr ? std::move(text) : escape(text);
  };
  std::string filled;
  std::optional<Json> json;
  for (const Piece& piece : pieces_) {
    if (filled.size() >= bytes_max) break;
    if (piece.fact != nullptr) {
      absl::StrAppend(&filled, escaped(facts.*piece.fact));
    } else if (!piece.payload) {
      absl::StrAppend(&filled, piece.text);
    } else if (piece.path.empty()) {
      absl::StrAppend(&filled, escaped(AsUtf8(facts.payload)));
    } else {
      if (!json.has_value()) json = ParseBoundedJson(facts.payload);
      absl::StrAppend(&filled, escaped(TextOf(Find(*json, piece.path))));
    }
  }
  if (filled.size() > bytes_max) {
    size_t end = bytes_max;
    while (end > 0 && (static_cast<unsigned char>(filled[end]) & 0xc0) == 0x80) --end;
    filled.resize(end);
  }
  return filled;
}

}  // namespace escapement
