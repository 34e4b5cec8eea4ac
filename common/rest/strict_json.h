// StrictJson: the JSON of clients, checked before protobuf's reader sees it.
//
// protobuf's reader takes more than JSON (comments, single quotes, trailing commas), keeps the last
// of two values of a field, rounds times with ten digits, and trims numbers in quotes. A mistake
// of a client would then have another meaning than the client thinks.
//
// One pass over the text, led by the descriptor of the message:
//   - RFC 8259, nested at most kJsonDepthMax deep.
//   - Each field at most once, by whichever of its two names; so with keys of maps.
//   - Times are RFC 3339 with at most 9 digits of a second and a capital T and Z; durations are
//     "1.5s", with at most 9 digits. Numbers and booleans are as JSON writes them; integers may
//     be in quotes. NaN and infinities are refused.
//   - A field of bytes can also be given as text (payloadText: "hello") or as JSON (payloadJson:
//     {"a": 1}), which becomes its bytes exactly as it is written. At most one of the three.
//
// Pure.

#ifndef COMMON_REST_STRICT_JSON_H_
#define COMMON_REST_STRICT_JSON_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::rest {

// The text for protobuf's reader, with bytes in base64. Fields that the type does not have stay as
// they are: protobuf's reader refuses them. INVALID_ARGUMENT with the path of the field.
absl::StatusOr<std::string> StrictJson(const google::protobuf::Descriptor& type,
                                       absl::string_view json);

// "" if `text` is a google.protobuf.Timestamp or Duration as JSON has them; otherwise what is
// wrong. Text of other types is "". protobuf's reader checks the ranges.
std::string TimeTextFault(const google::protobuf::Descriptor& type, absl::string_view text);

// By the name in protos or in JSON; null if there is none.
const google::protobuf::FieldDescriptor* FindField(const google::protobuf::Descriptor* message,
                                                   absl::string_view name);

}  // namespace escapement::rest

#endif  // COMMON_REST_STRICT_JSON_H_
