// What a schedule with given times would do. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_PREVIEW_H_
#define SERVICES_MASTER_SCHEDULES_PREVIEW_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/schedule_service.pb.h"

namespace escapement::master {

// INVALID_ARGUMENT with every field that is wrong; of times that never fire with the reason
// IMPOSSIBLE_EXPRESSION. What a new schedule may not be, all in the past, is refused unless
// from_time is before it. An interval without anchor is anchored at `now`. Occurrences and warnings
// are as seen at from_time, or else at `now`.
//
// A civil time that a gap skips is no occurrence: the warnings tell of it.
absl::StatusOr<v1::PreviewScheduleResponse> Preview(const v1::PreviewScheduleRequest& request,
                                                    absl::Time now);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_PREVIEW_H_
