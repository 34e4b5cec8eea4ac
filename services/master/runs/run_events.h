// The events of a run of many, in the order of their index: those that have ended, those that wait
// for another attempt and, of throttled runs, those that hold a token.
//
// Not listed: events that wait for their first attempt; of runs that are not throttled, those that
// a handler has claimed; and what throttled_events.h does not see.
//
// Shard by shard (each holds a contiguous slice): the retries of the run first (of a throttled one
// all at once, before), then its Done records, which may stand for ranges: on the day of its
// nominal time or, where there may have been jitter, the next. Work is bounded: the page ends
// early, with a position, after kRunScansMax reads.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_RUN_EVENTS_H_
#define SERVICES_MASTER_RUNS_RUN_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/master_context.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

struct RunEventsQuery {
  RunName name;
  OccurrenceSource source;  // of the schedule's present definition
  storage::v1::RunRecord run;
  std::optional<v1::Outcome> outcome;  // only these; then what has not ended is left out
  size_t limit = 0;
  // Where to begin: the first index wanted, and the first index of the Done record that holds it.
  uint64_t index = 0;
  uint64_t record_first = 0;
};

struct RunEventsPage {
  std::vector<v1::Event> events;
  bool more = false;  // go on at:
  uint64_t index = 0;
  uint64_t record_first = 0;
};

// Of an occurrence that was skipped as a whole (query.run is not used): all its events ended so.
RunEventsPage SkippedEvents(const RunEventsQuery& query, const storage::v1::DoneRecord& skipped);

void ReadRunEvents(MasterContext& context, RunEventsQuery query,
                   absl::AnyInvocable<void(absl::StatusOr<RunEventsPage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_EVENTS_H_
