// The values of a file, YAML or JSON, as one tree. Pure.
//
// A scalar of YAML is a string, whatever it looks like: the field that it is for decides how it is
// read. So `minute: 0` and `minute: "0"` are the same. A plain `null`, `~` or
// nothing is null.

#ifndef TOOLS_ESCCTL_APPLY_MESSAGE_READER_H_
#define TOOLS_ESCCTL_APPLY_MESSAGE_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace escapement::escctl {

using ValueTree = nlohmann::ordered_json;

// One part of a file between lines that begin with "---".
struct DocumentText {
  int number = 0;  // from 1; empty parts do not count
  int line = 0;    // the line of its first text, from 1
  std::string text;
};

// Parts that hold only blanks and comments are left out.
std::vector<DocumentText> SplitDocuments(absl::string_view file);

// INVALID_ARGUMENT, with the line in the file, if the document is neither YAML nor JSON, or if a
// key stands twice.
absl::StatusOr<ValueTree> ParseDocument(const DocumentText& document);

// Reads a tree of values into a message, field by field, and names every value that does not fit.
// Pure.
//
// Field names are those of the API's JSON; the proto's own names are accepted too. Durations may
// also be written as in flags: 1h30m.

struct FieldError {
  std::string field;  // "target.http.uri", "exclusions[1]"; empty: the whole resource
  std::string problem;

  bool operator==(const FieldError&) const = default;
};

// Adds one error for each value that does not fit. A null leaves its field unset.
void ReadMessage(const ValueTree& values, google::protobuf::Message& message,
                 std::vector<FieldError>& errors);

// The field as the file names it, for one that the server names: "schedule.event_count" is
// "eventCount". Map keys in brackets stay as they are.
std::string FileFieldName(absl::string_view server_field);

// The one of `words` that `word` is most likely a misspelling of, or "" if none is near.
std::string NearestWord(absl::string_view word, const std::vector<std::string>& words);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_APPLY_MESSAGE_READER_H_
