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
#include "common/filter/filter.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/codec/delivery_codec.h"

namespace escapement::master {

class EventFilter {
 public:
  // Every event.
  EventFilter() = default;
  // INVALID_ARGUMENT (filter). Names without "/" are those of the tenant.
  static absl::StatusOr<EventFilter> Read(absl::string_view text, absl::string_view tenant);

  bool always() const { return filter_.always(); }
  bool Matches(const v1::Event& event) const;

  // Every event that matches has its due time in this range.
  const FilterTimes& due() const { return due_; }
  // Every event that matches has this state; unset: any. An outcome or a complete_time is one of
  // ENDED events only.
  std::optional<v1::EventState> state() const { return state_; }

 private:
  Filter filter_;
  FilterTimes due_;
  std::optional<v1::EventState> state_;
};

// One-off events: public messages ↔ rows. Pure.

// Checks Event.due_time; `field` is its path.
std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations& violations);
void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations& violations);
void CheckClientEventId(absl::string_view event_id, absl::string_view field,
                        FieldViolations& violations);

// As shown to users. `definition` may be null (not known any more).
v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition);
// `position`: which event of the record's range it is, from 0.
v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done,
                         uint64_t position = 0);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_FILTER_H_
