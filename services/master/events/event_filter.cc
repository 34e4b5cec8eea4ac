#include "services/master/events/event_filter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/limits.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

constexpr FilterField kEventFields[] = {
    {.name = "name", .collection = "events", .prefix = true, .part = true},
    {.name = "event_id", .prefix = true, .part = true},
    {.name = "state"},
    {.name = "outcome"},
    {.name = "target"},
    {.name = "due_time"},
    {.name = "complete_time"}};

}  // namespace

absl::StatusOr<ListFilter> ReadEventFilter(absl::string_view text, absl::string_view tenant) {
  return ListFilter::Read<v1::Event>(text, tenant, kEventFields);
}

std::optional<v1::EventState> StateOfMatches(const ListFilter& filter) {
  std::optional<v1::EventState> state;
  ForEachNeeded(filter.conditions(), [&](const FilterComparison& comparison) {
    if (comparison.field == "state" && comparison.op == FilterOperator::kEqual)
      state = static_cast<v1::EventState>(comparison.number);
    if (comparison.field == "outcome" || comparison.field == "complete_time") state = v1::ENDED;
  });
  return state;
}

void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations& violations) {
  if (due_micros < kDueTimeMicrosMin || due_micros > kDueTimeMicrosMax) {
    violations.Add(field, "must be in the years 1 to 2199");
  }
}

std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations& violations) {
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

int64_t DebounceRule::DueMicros(int64_t since_micros, int64_t now_micros) const {
  return ToMicros(std::min(FromMicros(now_micros) + delay, FromMicros(since_micros) + max_delay));
}

int64_t DebouncedSince(const NamedBefore* before, absl::Time now) {
  const bool goes_on = before != nullptr && before->debounced_since_micros != 0;
  return goes_on ? before->debounced_since_micros : ToMicros(now);
}

std::optional<DebounceRule> ReadDebounce(const v1::Event& event, bool has_due_time,
                                         absl::string_view field, FieldViolations& violations) {
  if (!event.has_debounce()) return std::nullopt;
  const std::string place = absl::StrCat(field, ".debounce");
  const auto read = [&](const google::protobuf::Duration& duration, absl::Duration min,
                        absl::string_view name) {
    const std::optional<absl::Duration> value = ToDuration(duration);
    if (value.has_value() && *value >= min && *value <= kDebounceMax) return *value;
    violations.Add(absl::StrCat(place, ".", name),
                   absl::StrCat("must be from ", absl::FormatDuration(min), " to ",
                                absl::FormatDuration(kDebounceMax)));
    return min;
  };
  if (has_due_time) violations.Add(place, "says when the event is due: due_time cannot be set");
  DebounceRule rule;
  rule.delay = read(event.debounce().delay(), kDebounceMin, "delay");
  rule.max_delay = event.debounce().has_max_delay()
                       ? read(event.debounce().max_delay(), rule.delay, "max_delay")
                       : absl::InfiniteDuration();
  return rule;
}

v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(row.event_id());
  SetTimestamp(row.nominal_time_micros(), *event.mutable_due_time());
  event.set_payload(row.payload());
  event.set_state(state);
  event.set_generation(static_cast<int64_t>(row.generation()));
  event.set_revision(static_cast<int64_t>(row.revision()));
  ShowAttempts(row, state, event);
  if (definition != nullptr) WriteDelivery(definition->delivery(), event);
  if (row.max_lateness_micros() > 0)
    SetDuration(row.max_lateness_micros(), *event.mutable_max_lateness());
  if (WaitsAsOneOff(row)) ShowThrottle(row.tenant(), row.throttle(), event);
  return event;
}

void ShowThrottle(const std::string& tenant, const storage::v1::ThrottleRecord& throttle,
                  v1::Event& event) {
  WriteLimits(throttle, tenant, event);
  event.set_completion(throttle.on_release() ? v1::ON_RELEASE : v1::ON_DELIVERY);
}

void ShowNextAttempt(absl::Time due_time, absl::Time now, v1::Event& event) {
  if (event.state() == v1::PENDING && due_time > now)
    SetTimestamp(ToMicros(due_time), *event.mutable_next_attempt_time());
}

v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done,
                         uint64_t position) {
  v1::Event event;
  event.set_name(name);
  event.set_event_id(done.event_id());
  SetTimestamp(done.nominal_time_micros(), *event.mutable_due_time());
  event.set_state(v1::ENDED);
  event.set_outcome(ShowOutcome(done.outcome()));
  event.set_generation(static_cast<int64_t>(done.generation()));
  event.set_revision(static_cast<int64_t>(done.revision()));
  ShowAttempts(done, position, event);
  return event;
}

}  // namespace escapement::master
