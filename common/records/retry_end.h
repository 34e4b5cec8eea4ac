// When an event of a schedule is not tried again any more: at the next occurrence of its schedule,
// unless the schedule keeps its retries.
//
// Pure.

#ifndef COMMON_RECORDS_RETRY_END_H_
#define COMMON_RECORDS_RETRY_END_H_

#include <optional>

#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// No attempt but the first of the row's events begins at or after it. Of rows that were carried
// over to the window of a later occurrence it is the occurrence after that one. nullopt: there is
// no such end, since the row is of a one-off event, its run was triggered or backfilled (and so is
// no part of the schedule's rhythm), the definition keeps its retries, or there is no further
// occurrence. `timetable` is the definition's; null: there is none. `state` is the schedule's;
// null: not known.
std::optional<absl::Time> RetryEnd(const storage::v1::EventRecord& row,
                                   const storage::v1::DefinitionRecord& definition,
                                   const cron::Timetable* timetable, const CachedState* state);

// An event that waits for another attempt, which cannot begin before `now`, is too late for it.
bool RetryIsOver(const storage::v1::EventRecord& row,
                 const storage::v1::DefinitionRecord& definition, const cron::Timetable* timetable,
                 const CachedState* state, absl::Time now);

}  // namespace escapement

#endif  // COMMON_RECORDS_RETRY_END_H_
