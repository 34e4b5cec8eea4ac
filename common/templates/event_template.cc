#include "common/templates/event_template.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/bounded_json.h"
#include "common/base/check.h"
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

// The same text with `replace(number)` for each number of the JSON.
template <typename Replace>
std::string ReplaceNumbers(absl::string_view json, Replace replace) {
  constexpr absl::string_view kNumberCharacters = "0123456789+-.eE";
  std::string replaced;
  replaced.reserve(json.size());
  for (size_t i = 0; i < json.size();) {
    size_t end = i + 1;
    if (json[i] == '"') {
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, json.size());
    } else if (json[i] == '-' || absl::ascii_isdigit(static_cast<unsigned char>(json[i]))) {
      end = std::min(json.find_first_not_of(kNumberCharacters, i), json.size());
    }
    const absl::string_view token = json.substr(i, end - i);
    if (absl::string_view rest = token; TakeJsonNumber(rest) && rest.empty()) {
      absl::StrAppend(&replaced, replace(token));
    } else {
      replaced.append(token.data(), token.size());
    }
    i = end;
  }
  return replaced;
}

// A payload whose numbers keep their text: `json` has their places in `numbers` instead. As
// numbers, 100.00 would become 100.0, and 1e400 is out of range.
struct Payload {
  explicit Payload(absl::string_view text)
      : json(ParseBoundedJson(ReplaceNumbers(text, [this](absl::string_view number) {
          numbers.push_back(number);
          return absl::StrCat(numbers.size() - 1);
        }))) {}

  std::vector<absl::string_view> numbers;
  Json json;
};

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

std::string TextAt(const Payload& payload, const std::vector<std::string>& path) {
  const Json* value = Find(payload.json, path);
  if (value == nullptr || value->is_null()) return "";
  if (value->is_string()) return value->get<std::string>();
  return ReplaceNumbers(value->dump(-1, ' ', false, Json::error_handler_t::replace),
                        [&payload](absl::string_view place) {
                          size_t number = 0;
                          CHECK(absl::SimpleAtoi(place, &number));
                          return std::string(payload.numbers.at(number));
                        });
}

// Cuts the text to `*room`, at a boundary of UTF-8 characters, and takes from the room what is
// left.
void CutToRoom(EventTemplate::Unit unit, size_t* room, std::string* text) {
  size_t used = 0;
  size_t end = 0;
  while (end < text->size()) {
    size_t next = end + 1;
    while (next < text->size() && (static_cast<unsigned char>((*text)[next]) & 0xc0) == 0x80)
      ++next;
    const size_t taken = unit == EventTemplate::Unit::kBytes ? next - end : 1;
    if (taken > *room - used) break;
    used += taken;
    end = next;
  }
  // Nothing follows text that was cut, even if a smaller character would fit.
  *room = end < text->size() ? 0 : *room - used;
  text->resize(end);
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

std::string EventTemplate::Fill(const EventFacts& facts, size_t max, Escape escape,
                                Unit unit) const {
  std::string filled;
  std::optional<Payload> payload;
  size_t room = max;
  for (const Piece& piece : pieces_) {
    if (room == 0) break;
    std::string text;
    if (piece.fact != nullptr) {
      text = facts.*piece.fact;
    } else if (!piece.payload) {
      text = piece.text;
    } else if (piece.path.empty()) {
      text = AsUtf8(facts.payload);
    } else {
      if (!payload.has_value()) payload.emplace(facts.payload);
      text = TextAt(*payload, piece.path);
    }
    CutToRoom(unit, &room, &text);
    const bool is_value = piece.fact != nullptr || piece.payload;
    absl::StrAppend(&filled, is_value && escape != nullptr ? escape(text) : text);
  }
  return filled;
}

}  // namespace escapement
