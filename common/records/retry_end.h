// When an event is not tried again any more: at the age that its retry policy allows and, if it is
// of a schedule that does not keep its retries, at the next occurrence.
//
// Pure.

#ifndef COMMON_RECORDS_RETRY_END_H_
#define COMMON_RECORDS_RETRY_END_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// From when its age counts: its first attempt, or the first time that it was held up since its
// target could not be reached; `now` if this is the first.
absl::Time TriedSince(const storage::v1::EventRecord& row, absl::Time now);

// Notes that in the row if it is the first time. 0: it is neither, or not known when.
void NoteTried(int64_t tried_micros, storage::v1::EventRecord& row);

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
