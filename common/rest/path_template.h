// PathTemplate: a path of a google.api.http annotation, such as
// "/v1/{parent=tenants/*}/schedules" or "/v1/{name=tenants/*/schedules/*}:pause".
//
// Grammar (google/api/http.proto, without "**"):
//   template = "/" segment { "/" segment } [ ":" verb ]
//   segment  = literal | "*" | "{" field [ "=" segment { "/" segment } ] "}"
//
// Values. Immutable after Parse; const methods from any thread.

#ifndef COMMON_REST_PATH_TEMPLATE_H_
#define COMMON_REST_PATH_TEMPLATE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::rest {

// The path of a request, split and decoded once for all templates.
struct RequestPath {
  std::vector<std::string> segments;  // percent-decoded
  // The text after the last ':' of the last segment; "" if there is none. An encoded colon (%3A)
  // belongs to the segment.
  std::string verb;

  // INVALID_ARGUMENT: the path does not begin with '/', or a segment has a malformed escape, an
  // encoded '/', a control character or invalid UTF-8.
  static absl::StatusOr<RequestPath> Parse(absl::string_view path);
};

// Replaces %XX by its byte, and '+' by a space if `plus_is_space` (query strings). nullopt: a
// malformed escape.
std::optional<std::string> PercentDecoded(absl::string_view text, bool plus_is_space);

class PathTemplate {
 public:
  // INVALID_ARGUMENT: not of the grammar above.
  static absl::StatusOr<PathTemplate> Parse(absl::string_view text);

  // The field path of each variable with its value ("parent", "tenants/default"), or nullopt if
  // the path does not fit. An empty segment fits nothing.
  std::optional<std::vector<std::pair<std::string, std::string>>> Match(
      const RequestPath& path) const;

  const std::string& text() const { return text_; }
  // Field paths of the variables, in their order.
  std::vector<std::string> Variables() const;
  // The literal of each segment, "" for '*': {"v1", "tenants", ""} of "/v1/{parent=tenants/*}:go".
  std::vector<std::string> Segments() const;
  // The verb after the ':'; "" if there is none.
  const std::string& verb() const { return verb_; }

 private:
  struct Segment {
    std::string literal;  // "": any one segment
  };
  struct Variable {
    std::string field;
    size_t begin = 0;  // its segments are [begin, end)
    size_t end = 0;
  };

  std::string text_;
  std::vector<Segment> segments_;
  std::vector<Variable> variables_;
  std::string verb_;
};

}  // namespace escapement::rest

#endif  // COMMON_REST_PATH_TEMPLATE_H_
