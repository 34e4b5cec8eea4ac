#include "common/rest/ingest_event.h"

#include <cstdint>
#include <utility>

#include "common/base/proto_time.h"

namespace escapement::rest {

std::optional<v1::IngestEvent> ToIngestEvent(v1::Event event) {
  v1::IngestEvent ingested;
  if (event.has_due_time()) {
    const std::optional<int64_t> micros = TimestampMicros(event.due_time());
    if (!micros.has_value()) return std::nullopt;
    ingested.set_due_time_micros(*micros);
  }
  ingested.set_event_id(event.event_id());
  ingested.set_payload(std::move(*event.mutable_payload()));
  event.clear_event_id();
  event.clear_due_time();
  event.clear_payload();
  *ingested.mutable_overrides() = std::move(event);
  return ingested;
}

}  // namespace escapement::rest
