// FindSingleEvent finds the only event of a run of one. This run has no rows of its own: the event
// is the run. For an occurrence that was skipped as a whole, with any n, it finds the record of the
// skip. For an occurrence that waits for its launch, with any n, it finds the launch record.
//
// It searches in this order:
//  1. at the event's deterministic keys (launch record, queue, waiting, parked, Done; one
//  snapshot), where the present version of its schedule puts it;
//  2. the same, and where former versions have put it (schedules/changes/row_places.h);
//  3. if its schedule is or was throttled, among the holders of tokens and the waiting retries
//  (throttled_events.h);
//  4. among the claims and the retries of its shard.
// An event that moves during the search may be missed by all of these; then everything is read once
// more.
//
// FindActiveSingles finds all such events of a schedule that have not ended. FindRunRows finds out
// whether anything is left of a run that has rows of its own.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_SINGLE_EVENT_H_
#define SERVICES_MASTER_RUNS_SINGLE_EVENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/schedules/changes/row_places.h"

namespace escapement::master {

// When an occurrence is due; InfinitePast if its zone is not known any more. Pure.
absl::Time InstantOf(const cron::OccurrenceId& id);

// One of the three is set, or none if there is no such event.
struct SingleEvent {
  std::optional<storage::v1::DoneRecord> done = std::nullopt;
  std::optional<storage::v1::EventRecord> row = std::nullopt;
  std::optional<storage::v1::LaunchRecord> launch = std::nullopt;  // the run waits for its launch
  v1::EventState state = v1::EVENT_STATE_UNSPECIFIED;              // the row's state
  bool parked = false;  // FindSingleEvent only: the row waits for a resume of its schedule

  bool found() const { return done.has_value() || row.has_value() || launch.has_value(); }
};

// `source` is of the schedule's present definition.
void FindSingleEvent(MasterContext& context, OccurrenceSource source, std::string occurrence,
                     absl::AnyInvocable<void(absl::StatusOr<SingleEvent>)> done);

// Rows in the queue have no order by schedule, so they are looked for at the keys of `occurrences`.
// So are launch records, except those that were due before `old_launches`. Rows that were parked,
// claims, retries and old launch records are found wherever they are.
struct ActiveSinglesQuery {
  RowPlaces places;
  std::set<uint8_t> lanes;                             // those of the places, or more
  std::map<std::string, absl::Time> occurrences = {};  // nominal times
  absl::Time old_launches = absl::InfinitePast();
};
using SingleEvents = std::map<std::string, SingleEvent>;  // by occurrence

// An event may end, and a run may be launched, during the search: read the Done records and the run
// records after it.
void FindActiveSingles(MasterContext& context, ActiveSinglesQuery query,
                       absl::AnyInvocable<void(absl::StatusOr<SingleEvents>)> done);

// Where rows, claims, retries and tokens of a run are looked for.
struct RunRowsQuery {
  OccurrenceSource source;  // the schedule's present definition
  std::string occurrence;
  absl::Time nominal_time;
};
enum class RunRows {
  kNone,
  kSome,
  kNotKnown,  // none among those that were read, and there are more (kLookupRowsMax)
};
// Says whether anything is left of a run that has a run record. Rows that move during the search
// may be missed.
void FindRunRows(MasterContext& context, RunRowsQuery query,
                 absl::AnyInvocable<void(absl::StatusOr<RunRows>)> done);

// The earliest due time before `before` of a row in these lanes, of any schedule; `before` if there
// is none.
void FindOldestDue(MasterContext& context, const std::set<uint8_t>& lanes, absl::Time before,
                   absl::AnyInvocable<void(absl::StatusOr<absl::Time>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_SINGLE_EVENT_H_
