// EventTemplate: text with places that an event fills in, for messages to people.
//
//   {{payload}}        the payload
//   {{payload.a.0.b}}  a field of a JSON payload: names, and numbers of list elements from 0
//   {{id}}, {{source}}, {{time}}, {{subject}}, {{attempt}}, {{index}}, {{count}}
//
// Blanks inside the braces do not matter. A field that is missing, or in a payload that is not
// JSON or nested deeper than kJsonDepthMax, becomes empty text. Text of JSON is inserted as it is,
// every other value as JSON, with numbers as the payload writes them. Nothing is escaped, unless
// the caller of Fill says how.
//
// Threads: immutable after it was made.

#ifndef COMMON_TEMPLATES_EVENT_TEMPLATE_H_
#define COMMON_TEMPLATES_EVENT_TEMPLATE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

// The values of the places.
struct EventFacts {
  absl::string_view payload;
  std::string id;
  std::string source;
  std::string time;  // RFC 3339
  std::string subject;
  std::string attempt;
  std::string index;
  std::string count;
};

class EventTemplate {
 public:
  // INVALID_ARGUMENT: a "{{" without "}}", or an unknown name.
  static absl::StatusOr<EventTemplate> Parse(absl::string_view text);

  // Changes what is filled in, but not the text around it.
  using Escape = std::string (*)(absl::string_view);

  enum class Unit { kBytes, kCharacters };

  // Cuts the text to `max`, at a boundary of UTF-8 characters and as it is before `escape`. Bytes
  // of the payload that are no UTF-8 become U+FFFD. `escape`: null to fill in everything as it is.
  std::string Fill(const EventFacts& facts, size_t max, Escape escape = nullptr,
                   Unit unit = Unit::kBytes) const;

 private:
  struct Piece {
    std::string text;                         // text between the places
    std::string EventFacts::*fact = nullptr;  // a place; null: `text`, or the payload
    bool payload = false;
    std::vector<std::string> path = {};  // into the payload
  };
  static absl::StatusOr<Piece> ReadPlace(absl::string_view place);

  std::vector<Piece> pieces_;
};

}  // namespace escapement

#endif  // COMMON_TEMPLATES_EVENT_TEMPLATE_H_
