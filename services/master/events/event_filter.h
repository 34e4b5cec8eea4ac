// The `filter` of ListEvents: conditions on names, states, outcomes, times and targets.
//
// Pure.

#ifndef SERVICES_MASTER_EVENTS_EVENT_FILTER_H_
#define SERVICES_MASTER_EVENTS_EVENT_FILTER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/requests/list_filter.h"

namespace escapement::master {

// INVALID_ARGUMENT (filter). Names without "/" are those of the tenant.
absl::StatusOr<ListFilter> ReadEventFilter(absl::string_view text, absl::string_view tenant);
// Every match has this state; unset: any. Only ENDED events have an outcome or a complete_time.
std::optional<v1::EventState> StateOfMatches(const ListFilter& filter);

// One-off events: public messages ↔ rows. Pure.

// Checks Event.due_time, which is set; `field` is its path.
std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations& violations);
void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations& violations);
void CheckClientEventId(absl::string_view event_id, absl::string_view field,
                        FieldViolations& violations);

// Event.debounce of an upsert, validated.
struct DebounceRule {
  absl::Duration delay;
  absl::Duration max_delay;  // InfiniteDuration: no bound

  // When the event is due, if it was debounced first at `since`.
  int64_t DueMicros(int64_t since_micros, int64_t now_micros) const;
};
// Since when an event is debounced that replaces or follows `before` (null: none).
int64_t DebouncedSince(const NamedBefore* before, absl::Time now);
// nullopt: it has none.
std::optional<DebounceRule> ReadDebounce(const v1::Event& event, bool has_due_time,
                                         absl::string_view field, FieldViolations& violations);

// As shown to users. `definition` may be null (not known any more).
v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition);
// Sets the limits and the completion.
void ShowThrottle(const std::string& tenant, const storage::v1::ThrottleRecord& throttle,
                  v1::Event& event);
// Sets next_attempt_time of a PENDING event that is not due yet. `due_time`: that of its row.
void ShowNextAttempt(absl::Time due_time, absl::Time now, v1::Event& event);
// `position`: which event of the record's range it is, from 0.
v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done,
                         uint64_t position = 0);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_FILTER_H_
