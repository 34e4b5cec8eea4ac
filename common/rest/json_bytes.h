// JSON of the API ↔ the bytes of messages, by protobuf's json_util.
//
// In each call, json_util asks for the descriptions of types and makes them from the descriptors.
// Here they are kept, which halves the time of small messages.
//
// Threads: any.

#ifndef COMMON_REST_JSON_BYTES_H_
#define COMMON_REST_JSON_BYTES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::rest {

// Reads what StrictJson lets pass (strict_json.h). Unknown fields are refused. INVALID_ARGUMENT
// with words that may quote the text. Strings may still be invalid UTF-8 (by escapes of lone
// surrogates), which no message takes.
absl::StatusOr<std::string> JsonToBytes(const google::protobuf::Descriptor& type,
                                        absl::string_view json);

// lowerCamelCase, 64-bit integers as strings. Numbers, booleans, strings and lists are there even
// at their default. Left out are unset messages, `optional` fields and fields of a oneof, empty
// bytes, and enums without a value.
absl::StatusOr<std::string> BytesToJson(const google::protobuf::Descriptor& type,
                                        const std::string& bytes);

// gzip (RFC 1952) of whole bodies, by zlib.
//
// Pure.

std::string Gzipped(absl::string_view plain);

// INVALID_ARGUMENT: not gzip, or cut short. RESOURCE_EXHAUSTED: more than `bytes_max` when
// unpacked; it stops there, so a small body cannot take much memory.
absl::StatusOr<std::string> Gunzipped(absl::string_view packed, size_t bytes_max);

// Unpacks a body that comes in pieces. One thread at a time.
class GunzipStream {
 public:
  GunzipStream();
  ~GunzipStream();
  GunzipStream(const GunzipStream&) = delete;
  GunzipStream& operator=(const GunzipStream&) = delete;

  void Add(absl::string_view packed);
  // The next part, at most 64 KiB. Empty: all that was added is unpacked. INVALID_ARGUMENT: not
  // gzip.
  absl::StatusOr<std::string> Next();
  // True if the gzip is complete and nothing follows it.
  bool complete() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Events in JSON, as lines of an ingestion and messages of Kafka have them, as events of an Ingest
// batch.
//
// Pure functions.

// As JsonToBytes; invalid UTF-8 is INVALID_ARGUMENT, too.
absl::StatusOr<v1::Event> EventFromJson(absl::string_view json);
// The same for any message, which it replaces.
absl::Status MessageFromJson(absl::string_view json, google::protobuf::Message& message);

// Fields without a place of their own in an IngestEvent become its overrides, which are present
// even if there are none. nullopt: due_time is not a valid time.
std::optional<v1::IngestEvent> ToIngestEvent(v1::Event event);

}  // namespace escapement::rest

#endif  // COMMON_REST_JSON_BYTES_H_
