// JSON of the API ↔ the bytes of messages, by protobuf's json_util.
//
// In each call, json_util asks for the descriptions of types and makes them from the descriptors.
// Here they are kept, which halves the time of small messages.
//
// Threads: any.

#ifndef COMMON_REST_JSON_BYTES_H_
#define COMMON_REST_JSON_BYTES_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::rest {

// Unknown fields are refused. INVALID_ARGUMENT with json_util's words. Strings may still be invalid
// UTF-8 (by escapes of lone surrogates), which no message takes.
absl::StatusOr<std::string> JsonToBytes(const google::protobuf::Descriptor& type,
                                        absl::string_view json);

// lowerCamelCase, 64-bit integers as strings, fields at their default left out.
absl::StatusOr<std::string> BytesToJson(const google::protobuf::Descriptor& type,
                                        const std::string& bytes);

}  // namespace escapement::rest

#endif  // COMMON_REST_JSON_BYTES_H_
