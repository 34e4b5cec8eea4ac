// Where the only event of a run of one is. Such runs have no rows of their own: the event is the
// run. Of an occurrence that was skipped as a whole, of whatever n, it is the record of that.
//
// Looked for at its deterministic keys (queue, waiting, parked, Done; one snapshot), at its nominal
// time and with the jitter of the present definition, then, if its
// schedule is throttled, among the holders of tokens and the retries that wait
// (throttled_events.h), then among the claims and the retries of its shard. An event that moves
// meanwhile may be missed by all of these in a row; then everything is read once more.
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
#include "services/master/master_context.h"

namespace escapement::master {

// One of the two is set, or none if there is no such event.
struct SingleEvent {
  std::optional<storage::v1::DoneRecord> done;
  std::optional<storage::v1::EventRecord> row;
  v1::EventState state = v1::EVENT_STATE_UNSPECIFIED;  // of the row
};

// `source` is of the schedule's present definition.
void FindSingleEvent(MasterContext& context, OccurrenceSource source, std::string occurrence,
                     absl::AnyInvocable<void(absl::StatusOr<SingleEvent>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_SINGLE_EVENT_H_
