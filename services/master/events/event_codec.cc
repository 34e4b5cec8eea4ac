#include "services/master/events/event_codec.h"

#include "common/base/proto_time.h"
#include "services/master/limits.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations& violations) {
  if (due_micros < kDueTimeMicrosMin || due_micros > kDueTimeMicrosMax) {
    violations.Add(field, "must be in the years 1 to 2199");
  }
}

std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations& violations) {
  if (!event.has_due_time()) {
    violations.Add(field, "is required");
    return std::nullopt;
  }
  const std::optional<int64_t> micros = TimestampMicros(event.due_time());
  if (!micros.has_value()) {
    violations.Add(field, "is not a valid time");
  } else {
    CheckDueMicros(*micros, field, violations);
  }
  return micros;
}

void CheckClientEventId(absl::string_view event_id, absl::string_view field,
                        FieldViolations& violations) {
  if (!event_id.empty() && !IsClientEventId(event_id)) {
    violations.Add(
        field,
        "must be 1-63 characters of a-z, A-Z, 0-9, '-', '_', and must not look like an id "
        "that the server makes");
  }
}

v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(row.event_id());
  SetTimestamp(row.nominal_time_micros(), *event.mutable_due_time());
  event.set_payload(row.payload());
  event.set_state(state);
  event.set_attempts(static_cast<int32_t>(row.attempts()));
  event.set_reason(row.last_error());
  if (definition != nullptr) WriteDelivery(definition->delivery(), event);
  return event;
}

v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(done.event_id());
  SetTimestamp(done.nominal_time_micros(), *event.mutable_due_time());
  event.set_state(v1::ENDED);
  event.set_outcome(ShowOutcome(done.outcome()));
  event.set_reason(done.reason());
  event.set_attempts(static_cast<int32_t>(done.attempts()));
  if (done.dispatch_time_micros() != 0)
    SetTimestamp(done.dispatch_time_micros(), *event.mutable_dispatch_time());
  SetTimestamp(done.complete_time_micros(), *event.mutable_complete_time());
  event.set_output(done.output());
  return event;
}

v1::Outcome ShowOutcome(storage::v1::OutcomeKind outcome) {
  switch (outcome) {
    case storage::v1::OUTCOME_KIND_SUCCEEDED:
      return v1::SUCCEEDED;
    case storage::v1::OUTCOME_KIND_FAILED:
      return v1::FAILED;
    case storage::v1::OUTCOME_KIND_EXPIRED:
      return v1::EXPIRED;
    case storage::v1::OUTCOME_KIND_CANCELLED:
      return v1::CANCELLED;
    case storage::v1::OUTCOME_KIND_SKIPPED:
      return v1::SKIPPED;
    default:
      return v1::OUTCOME_UNSPECIFIED;
  }
}

}  // namespace escapement::master
