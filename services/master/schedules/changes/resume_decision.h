// What a resume writes and answers.
//
// The pause was a downtime of the schedule's own: cron::PlanMissed, asked from the moment of the
// pause on, decides what becomes of the occurrences that fell due meanwhile, whether they were
// emitted before (their rows are parked) or never. What fires goes on; what does not is skipped
// with reason "paused". (An update that changes the times begins the pause anew:
// schedule_decisions.h.)
//  - Parked rows of occurrences before the pause go on if the plan fires everything since, else
//    they are skipped, too: they are older than what is skipped. Throttled ones that were due
//    before the pause go on in any case: they waited for their turn; and so do those of runs that
//    were triggered.
//  - Launch records that are due are parked rows, too; what is not skipped stays to be launched.
//  - Occurrences that were never emitted: their rows, or records as the plan says. If the rows
//    would be more than one change may write, only the latest occurrences fire, as many as there
//    is room for, and all before them are in the summary: a resume must get through.
//  - Of max_runs what fires counts, and nothing else; what is beyond it is not fired.
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
