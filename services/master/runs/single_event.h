// Finds the only event of a run of one. This run has no rows of its own: the event is the run.
// For an occurrence that was skipped as a whole, with any n, it finds the record of the skip.
//
// It searches in this order:
//  1. at the event's deterministic keys (queue, waiting, parked, Done; one snapshot), at its
//  nominal time and with the jitter of the present definition;
//  2. if its schedule is throttled, among the holders of tokens and the waiting retries
//  (throttled_events.h);
//  3. among the claims and the retries of its shard.
// An event that moves during the search may be missed by all of these; then everything is read once
// more.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_SINGLE_EVENT_H_
#define SERVICES_MASTER_RUNS_SINGLE_EVENT_H_

#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

// One of the two is set, or none if there is no such event.
struct SingleEvent {
  std::optional<storage::v1::DoneRecord> done;
  std::optional<storage::v1::EventRecord> row;
  v1::EventState state = v1::EVENT_STATE_UNSPECIFIED;  // the row's state
};

// `source` is of the schedule's present definition.
void FindSingleEvent(MasterContext& context, OccurrenceSource source, std::string occurrence,
                     absl::AnyInvocable<void(absl::StatusOr<SingleEvent>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_SINGLE_EVENT_H_
