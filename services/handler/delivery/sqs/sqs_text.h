// Text as SQS and its JSON protocol take it. Pure functions.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_SQS_TEXT_H_
#define SERVICES_HANDLER_DELIVERY_SQS_SQS_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::handler {

// True if the text is valid UTF-8 and only has characters that SQS takes in bodies and attributes:
// U+0009, U+000A, U+000D, U+0020 to U+D7FF, U+E000 to U+FFFD and U+10000 to U+10FFFF.
bool IsSqsText(absl::string_view text);

// Appends a JSON string with its quotes. `text` must be IsSqsText.
void AppendJsonString(absl::string_view text, std::string* json);

// The text itself if it can be the id of a message group or for deduplication: 1 to 128 printable
// ASCII characters without blanks. Otherwise its SHA-256, as 64 hex digits.
std::string SqsIdOf(absl::string_view text);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_SQS_TEXT_H_
