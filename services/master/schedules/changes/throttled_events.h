// The throttled events of a schedule that have not ended: those that wait, those that hold a
// token, and those that are parked.
//
// The search uses the places of the present and of former definitions (row_places.h). It may miss
// events that move between the reads. Work is bounded: at most kLookupRowsMax rows of each place
// are read.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_THROTTLED_EVENTS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_THROTTLED_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/schedules/changes/row_places.h"

namespace escapement::master {

// Events [first, first + count) of a run.
struct ThrottledRange {
  std::string occurrence;
  uint64_t first = 0;
  uint64_t count = 0;
  v1::EventState state = v1::PENDING;  // RUNNING: they hold their token
  storage::v1::EventRecord row;        // for holders: the row from which they were taken
};

struct ThrottledQuery {
  RowPlaces places;  // without a group nothing is found
  // True for each range that the caller wants.
  absl::AnyInvocable<bool(const ThrottledRange&)> wanted = nullptr;
  size_t limit = 1;  // reads no further when it has found so many
  // If it is given, becomes true if there may be more than was read. It outlives the reading.
  bool* cut = nullptr;
};

void ReadThrottledEvents(
    MasterContext& context, ThrottledQuery query,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<ThrottledRange>>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_THROTTLED_EVENTS_H_
