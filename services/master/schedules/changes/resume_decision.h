// Reads the launch records of a paused schedule that have fallen due.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_RESUME_DECISION_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_RESUME_DECISION_H_

#include <cstddef>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/schedules/changes/change_builder.h"
#include "services/master/schedules/changes/schedule_decisions.h"

namespace escapement::master {

// Reads the schedule's launch records that are due before `input.now`, by launch time, except for
// occurrences that have been launched already. They stand among records of other schedules of the
// partition. At most kLaunchRowsMax records are read in all; later ones are left out and are
// launched as if the schedule had never been paused.
void ReadWaitingLaunches(MasterContext& context, const ChangeInput& input,
                         absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)> done);

// Occurrences from a moment on, with a bound on the work however much is excluded. Pure.

struct Upcoming {
  std::vector<cron::Occurrence> occurrences;
  bool complete = true;  // false: there may be more before `max`, but too many were excluded
};

// The first `max` occurrences at or after `from`. For intervals and times with exclusions, the
// search covers the first `candidates_max` occurrences (or a few hundred more) that there would be
// without exclusions. A search of cron expressions is quick in any case.
Upcoming UpcomingOf(const cron::Timetable& timetable, absl::Time from, size_t max,
                    size_t candidates_max);

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

// NOT_FOUND, ABORTED as the others (schedule_decisions.h); FAILED_PRECONDITION if it is not PAUSED.
// `launches`: ReadWaitingLaunches of the same snapshot.
absl::StatusOr<Decision> DecideResume(const ChangeInput& input,
                                      const std::vector<WaitingLaunch>& launches,
                                      const v1::ResumeScheduleRequest& request);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_RESUME_DECISION_H_
