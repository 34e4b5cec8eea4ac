// Shows when a schedule with given times would fire. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_PREVIEW_H_
#define SERVICES_MASTER_SCHEDULES_PREVIEW_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/schedule_service.pb.h"

namespace escapement::master {

// INVALID_ARGUMENT with every wrong field; times that never fire have the reason
// IMPOSSIBLE_EXPRESSION. Times that are all in the past are refused, as for a new schedule, unless
// from_time is before them. An interval without an anchor is anchored at `now`. Occurrences and
// warnings are as seen at from_time, by default at `now`.
//
// A civil time that a gap skips is no occurrence; a warning names it.
absl::StatusOr<v1::PreviewScheduleResponse> Preview(const v1::PreviewScheduleRequest& request,
                                                    absl::Time now);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_PREVIEW_H_
