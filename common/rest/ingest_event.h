// Events in JSON, as lines of an ingestion and messages of Kafka have them, as events of an Ingest
// batch.
//
// Pure functions.

#ifndef COMMON_REST_INGEST_EVENT_H_
#define COMMON_REST_INGEST_EVENT_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::rest {

// Unknown fields are refused. INVALID_ARGUMENT with the parser's words, which may quote the text.
absl::StatusOr<v1::Event> EventFromJson(absl::string_view json);

// Fields without a place of their own in an IngestEvent become its overrides, which are present
// even if there are none. nullopt: due_time is not a valid time.
std::optional<v1::IngestEvent> ToIngestEvent(v1::Event event);

}  // namespace escapement::rest

#endif  // COMMON_REST_INGEST_EVENT_H_
