// Lists the events of a run of many events by index: ended events, events that wait for another
// attempt and, in throttled runs, events that hold a token.
//
// Not listed: events that wait for their first attempt, claimed events of runs without a throttle,
// and events that throttled_events.h does not see. RunService lists the only event of a run if its
// target is down or has asked for a pause.
//
// It reads shard by shard; each shard holds a contiguous slice. First it reads the run's retries
// (for a throttled run all at once, before), then its Done records, which may stand for ranges.
// These are under the day of the nominal time or, with jitter, the next day. Work is bounded: after
// kRunScansMax reads the page ends early, with a position.
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
#include "escapement/v1/run_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

struct RunEventsQuery {
  RunName name;
  OccurrenceSource source;  // the schedule's present definition
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

// The events of an occurrence that was skipped as a whole (query.run is not used): all of them
// ended alike.
RunEventsPage SkippedEvents(const RunEventsQuery& query, const storage::v1::DoneRecord& skipped);

void ReadRunEvents(MasterContext& context, RunEventsQuery query,
                   absl::AnyInvocable<void(absl::StatusOr<RunEventsPage>)> done);

// CancelRun: nothing more of a run is sent.
//
// A change of the schedule's state adds the run to StateRecord.cancelled_runs. From then on every
// claim and grant that was decided before is refused, and whoever judges a row of the run ends it
// (common/records/row_judge.h). Rows that wait in `parked` nobody judges, so this ends them, part
// by part, once the state forbids that others are parked. It is no change of the definition: the
// schedule's etag stays.
//
// Threads: the callback runs on the context's executor.

// Errors: those of the RPC. `validate_only`: decides and answers, writes nothing.
void CancelRunOfSchedule(MasterContext& context, RunName name, RequestMark mark, bool validate_only,
                         Done<v1::Run> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_EVENTS_H_
