// The values of a file, YAML or JSON, as one tree. Pure.
//
// A scalar of YAML is a string, whatever it looks like: the field that it is for decides how it is
// read (message_reader.h). So `minute: 0` and `minute: "0"` are the same. A plain `null`, `~` or
// nothing is null.

#ifndef TOOLS_ESCCTL_APPLY_VALUE_TREE_H_
#define TOOLS_ESCCTL_APPLY_VALUE_TREE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

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

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_APPLY_VALUE_TREE_H_
