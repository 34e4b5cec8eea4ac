// Decides what each change of a schedule writes and answers, except resume (resume_decision.h).
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_DECISIONS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_DECISIONS_H_

#include "absl/status/statusor.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/schedules/changes/decision.h"

namespace escapement::master {

// ALREADY_EXISTS if there is one.
absl::StatusOr<Decision> DecideCreate(const ChangeInput& input, const ScheduleDraft& draft);
// All others: NOT_FOUND if there is none, ABORTED (ETAG_MISMATCH) if an etag is given and not the
// current one.
// If an update of a paused schedule changes its times, the former version's occurrences until now
// that were never emitted are skipped ("paused"), and a resume counts from the update.
absl::StatusOr<Decision> DecideUpdate(const ChangeInput& input,
                                      const v1::UpdateScheduleRequest& request);
absl::StatusOr<Decision> DecideDelete(const ChangeInput& input,
                                      const v1::DeleteScheduleRequest& request);
// Notes as covered_to how far every occurrence has its rows; those at or beyond the end of max_runs
// have none.
absl::StatusOr<Decision> DecidePause(const ChangeInput& input,
                                     const v1::PauseScheduleRequest& request);
// The run passes by the overlap policy: it is launched at once, whatever else is active.
absl::StatusOr<Decision> DecideTrigger(const ChangeInput& input,
                                       const v1::TriggerScheduleRequest& request);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_DECISIONS_H_
