// The `filter` of ListEvents: conditions on names, states, outcomes, times and targets.
//
// Pure.

#ifndef SERVICES_MASTER_EVENTS_EVENT_FILTER_H_
#define SERVICES_MASTER_EVENTS_EVENT_FILTER_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "escapement/v1/resources.pb.h"

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

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_FILTER_H_
