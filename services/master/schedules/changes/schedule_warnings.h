// Warnings about settings of a schedule that are legal but may not be intended. Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_WARNINGS_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_WARNINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/codec/schedule_codec.h"

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

// The warning to those who did not say that their consumer gives the tokens of this policy back.
std::string TokensMustComeBack(const storage::v1::PolicyRecord& policy);

// How long after the first attempt's begin the last one can end: all backoffs at their longest and
// all attempts timing out, but not more than max_age.
absl::Duration RetrySpanMax(const storage::v1::DeliveryRecord& delivery);

// Schedule.max_runs as an end in time: which occurrences count, and from which instant on the
// schedule has no more.
//
// StateRecord.runs_used counts the occurrences before covered_to. That includes occurrences ahead
// of now that were emitted with a change; a later change takes these back and counts those of the
// next definition instead. While a schedule is paused, its count stays at the moment of the pause.
// Only those occurrences of the pause count that the resume fires. If an update starts the
// pause again, occurrences that were emitted before it count, too. Rows beyond the end are
// superseded when they are claimed, even if the end has moved (row_judge.h). A definition without
// max_runs counts nothing: if it gets max_runs later, all of them are left from then on.
//
// Pure. Work is bounded by max_runs (at most kMaxRunsMax).

// The same without what is at `finish` or after.
cron::Timetable EndingAt(const cron::Timetable& timetable, absl::Time finish);

// Occurrences of the definition that have counted before `now`. Its timetable ends at FinishOf the
// state.
uint64_t RunsUsedAt(const storage::v1::StateRecord& state, const Definition& definition,
                    absl::Time now);

// Ends `definition` after what is left of its max_runs, from `from` on, where `used` have counted
// before; notes this in `state`, with the count before `counted_to` (at least `from`).
void LimitRuns(uint64_t used, absl::Time from, absl::Time counted_to, Definition& definition,
               storage::v1::StateRecord& state);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_SCHEDULE_WARNINGS_H_
