// ListVersionsOf: the versions of a schedule that are kept, and what each changed.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_VERSIONS_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_VERSIONS_H_

#include <string>
#include <vector>

#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// The fields of Schedule by which two versions of one schedule differ, in the order of the message;
// never their values. Another secret counts as a change of its target, and another day of the
// calendar as a change of `calendar`. Pure.
std::vector<std::string> ChangedFields(const storage::v1::DefinitionRecord& before,
                                       const storage::v1::DefinitionRecord& after);

// ListScheduleVersions. NOT_FOUND if there is no such schedule, or no longer.
//
// Threads: the callback runs on the context's executor, which no step holds for longer than
// kListedVersionsAtOnce versions take.
void ListVersionsOf(MasterContext& context, ScheduleName name,
                    Done<v1::ListScheduleVersionsResponse> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_VERSIONS_H_
