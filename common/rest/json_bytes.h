// JSON of the API ↔ the bytes of messages, by protobuf's json_util.
//
// In each call, json_util asks for the descriptions of types and makes them from the descriptors.
// Here they are kept, which halves the time of small messages.
//
// Threads: any.

#ifndef COMMON_REST_JSON_BYTES_H_
#define COMMON_REST_JSON_BYTES_H_

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::rest {

// Unknown fields are refused. INVALID_ARGUMENT with json_util's words. Strings may still be invalid
// UTF-8 (by escapes of lone surrogates), which no message takes.
absl::StatusOr<std::string> JsonToBytes(const google::protobuf::Descriptor& type,
                                        absl::string_view json);

// lowerCamelCase, 64-bit integers as strings, fields at their default left out.
absl::StatusOr<std::string> BytesToJson(const google::protobuf::Descriptor& type,
                                        const std::string& bytes);

// gzip (RFC 1952) of whole bodies, by zlib.
//
// Pure.

std::string Gzipped(absl::string_view plain);

// INVALID_ARGUMENT: not gzip, or cut short. RESOURCE_EXHAUSTED: more than `bytes_max` when
// unpacked; it stops there, so a small body cannot take much memory.
absl::StatusOr<std::string> Gunzipped(absl::string_view packed, size_t bytes_max);

// Events in JSON, as lines of an ingestion and messages of Kafka have them, as events of an Ingest
// batch.
//
// Pure functions.

// Unknown fields are refused. INVALID_ARGUMENT with the parser's words, which may quote the text.
absl::StatusOr<v1::Event> EventFromJson(absl::string_view json);

// Fields without a place of their own in an IngestEvent become its overrides, which are present
// even if there are none. nullopt: due_time is not a valid time.
std::optional<v1::IngestEvent> ToIngestEvent(v1::Event event);

}  // namespace escapement::rest

#endif  // COMMON_REST_JSON_BYTES_H_
