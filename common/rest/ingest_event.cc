#include "common/rest/ingest_event.h"

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/proto_time.h"
#include "common/rest/json_bytes.h"

namespace escapement::rest {

absl::StatusOr<v1::Event> EventFromJson(absl::string_view json) {
  const absl::StatusOr<std::string> bytes = JsonToBytes(*v1::Event::descriptor(), json);
  if (!bytes.ok()) return bytes.status();
  v1::Event event;
  if (event.ParseFromString(*bytes)) return event;
  return absl::InvalidArgumentError("a string is not valid UTF-8");
}

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
