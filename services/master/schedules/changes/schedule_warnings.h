// Warnings about settings of a schedule that are legal but may not be intended. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_WARNINGS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_WARNINGS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/master/codec/definition.h"

namespace escapement::master {

// Sentences for Schedule.warnings and previews, as seen at `now`; its anchor is filled. They tell
// of
//   retries that can last longer than the shortest period (of the next 1,000 occurrences), and
//     jitter that is as long,
//   days of the month that some of its months do not have,
//   civil times of the next year that a change of the zone's offset skips, moves or doubles: of the
//     first few changes, and of fixed times of day only (a periodic expression keeps its rhythm),
//   exclusions that match no occurrence of the next year, and policies without effect,
//   that no occurrence is left.
// The work is bounded (limits.h); what cannot be found out within the bounds is not mentioned.
std::vector<std::string> WarningsOf(const Definition& definition, absl::Time now);

// How long after the first attempt's begin the last one can end: all backoffs at their longest and
// all attempts timing out, but not more than max_age.
absl::Duration RetrySpanMax(const storage::v1::DeliveryRecord& delivery);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_WARNINGS_H_
