// Schedule.max_runs as an end in time: which occurrences count, and from which instant on the
// schedule has no more.
//
// StateRecord.runs_used counts the occurrences before covered_to. That includes occurrences ahead
// of now that were emitted with a change; a later change takes these back and counts those of the
// next definition instead. While a schedule is paused, its count stays at the moment of the pause.
// Only those occurrences of the pause count that the resume fires. If an update starts the
// pause again, occurrences that were emitted before it count, too. Rows beyond the end are
// superseded when they are claimed, even if the end has moved (currency.h). A definition without
// max_runs counts nothing: if it gets max_runs later, all of them are left from then on.
//
// Pure. Work is bounded by max_runs (at most kMaxRunsMax).

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_MAX_RUNS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_MAX_RUNS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/codec/definition.h"

namespace escapement::master {

// The same without what is at `finish` or after.
cron::Timetable EndingAt(const cron::Timetable& timetable, absl::Time finish);

// Occurrences of the definition that have counted before `now`. Its timetable ends at FinishOf the
// state.
uint64_t RunsUsedAt(const storage::v1::StateRecord& state, const Definition& definition,
                    absl::Time now);

// Ends `definition` after what is left of its max_runs, from `from` on, where `used` have counted
// before; notes this in `state`, with the count before `counted_to` (at least `from`).
void LimitRuns(uint64_t used, absl::Time from, absl::Time counted_to, Definition& definition,
               storage::v1::StateRecord& state);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_MAX_RUNS_H_
