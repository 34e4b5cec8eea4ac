// Reads the counts of all runs of schedules, summed over their parts.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_COUNTS_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_COUNTS_H_

#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

// One sum for each uid, in their order. All schedules are read at once, so their number must be
// bounded.
void ReadScheduleCounts(
    MasterContext& context, const std::vector<Uid>& uids,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<storage::v1::RunPartRecord>>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_COUNTS_H_
