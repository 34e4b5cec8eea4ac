#include "services/master/events/event_filter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/requests/filter_values.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

constexpr absl::string_view kDueTime = "due_time";
constexpr absl::string_view kCompleteTime = "complete_time";

class Binder {
 public:
  explicit Binder(absl::string_view tenant) : tenant_(tenant) {}

  absl::Status operator()(FilterComparison& comparison) const {
    const std::string& field = comparison.field;
    if (field == kDueTime || field == kCompleteTime) return BindTime(comparison);
    if (field == "target") return BindTargetKind(comparison);
    if (field == "name") {
      comparison.value = FullNameOf(tenant_, "events", comparison.value);
    } else if (field == "state") {
      v1::EventState state;
      if (!v1::EventState_Parse(comparison.value, &state) || state == v1::EVENT_STATE_UNSPECIFIED)
        return absl::InvalidArgumentError("state must be PENDING, RUNNING or ENDED");
      comparison.number = state;
    } else if (field == "outcome") {
      v1::Outcome outcome;
      if (!v1::Outcome_Parse(comparison.value, &outcome) || outcome == v1::OUTCOME_UNSPECIFIED)
        return absl::InvalidArgumentError(
            "outcome must be SUCCEEDED, FAILED, EXPIRED, CANCELLED or SKIPPED");
      comparison.number = outcome;
    } else if (field != "event_id") {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown field ", field,
                       "; use name, event_id, state, outcome, target, due_time or complete_time"));
    }
    return RequireEquality(comparison);
  }

 private:
  const absl::string_view tenant_;
};

bool HoldsTime(const google::protobuf::Timestamp& shown, const FilterComparison& comparison) {
  const absl::Time at = FromMicros(*TimestampMicros(shown));
  return Compares(OrderOf(at, comparison.time), comparison.op);
}

bool Holds(const v1::Event& event, const FilterComparison& comparison) {
  const std::string& field = comparison.field;
  const auto equal = [&](bool same) {
    return same == (comparison.op != FilterOperator::kNotEqual);
  };
  if (field == kDueTime) return HoldsTime(event.due_time(), comparison);
  if (field == kCompleteTime)
    return event.has_complete_time() && HoldsTime(event.complete_time(), comparison);
  if (field == "name") return equal(NameMatches(event.name(), comparison.value));
  if (field == "event_id") return equal(NameMatches(event.event_id(), comparison.value));
  if (field == "state") return equal(event.state() == comparison.number);
  if (field == "outcome")
    return event.state() == v1::ENDED && equal(event.outcome() == comparison.number);
  // An event that has ended has no target any more.
  return event.has_target() && equal(TargetKind(event.target()) == comparison.value);
}

}  // namespace

absl::StatusOr<EventFilter> EventFilter::Read(absl::string_view text, absl::string_view tenant) {
  absl::StatusOr<Filter> filter = ReadFilter(text, Binder(tenant));
  if (!filter.ok()) return filter.status();
  EventFilter read;
  read.due_ = FilterTimesOf(*filter, kDueTime);
  ForEachNeeded(*filter, [&](const FilterComparison& comparison) {
    if (comparison.field == "state" && comparison.op == FilterOperator::kEqual)
      read.state_ = static_cast<v1::EventState>(comparison.number);
    if (comparison.field == "outcome" || comparison.field == kCompleteTime) read.state_ = v1::ENDED;
  });
  read.filter_ = *std::move(filter);
  return read;
}

bool EventFilter::Matches(const v1::Event& event) const {
  return FilterHolds(filter_,
                     [&](const FilterComparison& comparison) { return Holds(event, comparison); });
}

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
  ShowAttempts(row, state, event);
  if (definition != nullptr) WriteDelivery(definition->delivery(), event);
  return event;
}

v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done,
                         uint64_t position) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(done.event_id());
  SetTimestamp(done.nominal_time_micros(), *event.mutable_due_time());
  event.set_state(v1::ENDED);
  event.set_outcome(ShowOutcome(done.outcome()));
  ShowAttempts(done, position, event);
  return event;
}

}  // namespace escapement::master
