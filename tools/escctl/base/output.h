// Output of escctl: tables for people, JSON and YAML (with the API's JSON names) for programs.

#ifndef TOOLS_ESCCTL_BASE_OUTPUT_H_
#define TOOLS_ESCCTL_BASE_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace escapement::escctl {

enum class OutputFormat { kTable, kJson, kYaml };

using Row = std::vector<std::string>;

// Columns are as wide as their widest cell, with two spaces between. Rows shorter than `header` are
// filled with "". Characters that a terminal could take for commands are escaped, so a cell is
// always one line.
std::string FormatTable(const Row& header, const std::vector<Row>& rows);

// One message as JSON (indented, with its newline) or YAML. Control and direction characters are
// escaped (common/base/printable_text.h).
std::string FormatMessage(const google::protobuf::Message& message, OutputFormat format);

// A list as a JSON array or YAML sequence.
std::string FormatMessages(const std::vector<const google::protobuf::Message*>& messages,
                           OutputFormat format);

// A text of JSON in either format; other text is shown as null.
std::string FormatJsonText(absl::string_view json, OutputFormat format);

// "3" or "3 events", for the words on stderr.
std::string Counted(size_t count, absl::string_view noun);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_OUTPUT_H_
