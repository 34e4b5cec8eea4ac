// ToIngestEvent: an Event, as a line of JSON has it, as an event of an Ingest batch.

#ifndef COMMON_REST_INGEST_EVENT_H_
#define COMMON_REST_INGEST_EVENT_H_

#include <optional>

#include "escapement/v1/event_service.pb.h"

namespace escapement::rest {

// Fields without a place of their own in an IngestEvent become its overrides, which are present
// even if there are none. nullopt: due_time is not a valid time.
std::optional<v1::IngestEvent> ToIngestEvent(v1::Event event);

}  // namespace escapement::rest

#endif  // COMMON_REST_INGEST_EVENT_H_
