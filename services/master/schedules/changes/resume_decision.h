// Decides what a resume writes and answers.
//
// The pause counts as a downtime of the schedule. cron::PlanMissed, asked from the moment of the
// pause on, decides about the occurrences that fell due during the pause. It does not matter
// whether they were emitted before (their rows are parked) or never. An occurrence that does not
// fire is skipped with reason "paused". (An update that changes the times starts the pause again:
// schedule_decisions.h.)
//  - Parked rows of occurrences before the pause go on if the plan fires all later ones. Otherwise
//  they are skipped, because they are older than skipped occurrences. Two kinds go on in any case:
//  throttled rows that were due before the pause, because they waited for their turn, and rows of
//  triggered runs.
//  - Due launch records count as parked rows; those that are not skipped stay to be launched.
//  - Occurrences that were never emitted get their rows, or records as the plan says. If there are
//  more rows than one change may write, only the latest occurrences fire, as many as there is room
//  for; the summary has all before them. So a resume always comes to an end.
//  - Only occurrences that fire count for max_runs; occurrences beyond it do not fire.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_RESUME_DECISION_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_RESUME_DECISION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/schedules/changes/decision.h"
#include "services/master/schedules/changes/waiting_launch.h"

namespace escapement::master {

// NOT_FOUND, ABORTED as the others (schedule_decisions.h); FAILED_PRECONDITION if it is not PAUSED.
// `launches`: ReadWaitingLaunches of the same snapshot.
absl::StatusOr<Decision> DecideResume(const ChangeInput& input,
                                      const std::vector<WaitingLaunch>& launches,
                                      const v1::ResumeScheduleRequest& request);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_RESUME_DECISION_H_
