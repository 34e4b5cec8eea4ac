// Reads the launch records of a paused schedule that have fallen due.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_LAUNCH_READER_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_LAUNCH_READER_H_

#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/schedules/changes/decision.h"
#include "services/master/schedules/changes/waiting_launch.h"

namespace escapement::master {

// Reads the schedule's launch records that are due before `input.now`, by launch time, except for
// occurrences that have been launched already. They stand among records of other schedules of the
// partition. At most kLaunchRowsMax records are read in all; later ones are left out and are
// launched as if the schedule had never been paused.
void ReadWaitingLaunches(MasterContext& context, const ChangeInput& input,
                         absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_LAUNCH_READER_H_
