// Schedule.max_runs as an end in time: which occurrences have counted, and from which instant on
// there are none any more.
//
// StateRecord.runs_used counts the occurrences before covered_to, those ahead of now that were
// emitted with a change included; a change at `now` takes these back and counts those of the next
// definition instead. While a schedule is paused its count stands at the moment of the pause: of
// what falls due meanwhile only what the resume fires is counted, and, of an update that begins the
// pause anew, what had been emitted for before it. Rows beyond the end, wherever it has moved, are
// superseded when they are claimed (currency.h). A definition without max_runs counts nothing: one
// that gets them later has them all from then on.
//
// Pure. Work is bounded by max_runs (at most kMaxRunsMax).

#ifndef SERVICES_MASTER_SCHEDULES_MAX_RUNS_H_
#define SERVICES_MASTER_SCHEDULES_MAX_RUNS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/schedules/definition.h"

namespace escapement::master {

// The same without what is at `finish` or after.
cron::Timetable EndingAt(const cron::Timetable& timetable, absl::Time finish);

// Occurrences of the definition that have counted before `now`. Its timetable ends at FinishOf the
// state.
uint64_t RunsUsedAt(const storage::v1::StateRecord& state, const Definition& definition,
                    absl::Time now);

// Ends `definition` after what is left of its max_runs, from `from` on, where `used` have counted
// before; notes this in `state`, with the count before `counted_to` (at least `from`).
void LimitRuns(uint64_t used, absl::Time from, absl::Time counted_to, Definition* definition,
               storage::v1::StateRecord* state);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_MAX_RUNS_H_
