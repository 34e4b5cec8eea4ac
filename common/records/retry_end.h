// RetryEnd: until when a schedule's event is tried again. TriedSince and NoteTried: from when its
// age counts. AttemptsOfRound: which of its attempts count.
//
// Pure.

#ifndef COMMON_RECORDS_RETRY_END_H_
#define COMMON_RECORDS_RETRY_END_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// When the age of the event began: at its first attempt, or when its target could first not be
// reached. `now` if the row has no such time yet.
absl::Time TriedSince(const storage::v1::EventRecord& row, absl::Time now);

// Sets that time in the row if it has none yet. 0 changes nothing.
void NoteTried(int64_t tried_micros, storage::v1::EventRecord& row);

// The attempts that the retry policy counts, of `attempts` that have begun in all: a redrive begins
// a new round.
uint32_t AttemptsOfRound(const storage::v1::EventRecord& row, uint32_t attempts);

// The schedule's next occurrence: no retry of the row's events begins at or after it. For a row
// that was carried over to the window of a later occurrence, it is the occurrence after that one.
// nullopt: there is no such end. The row is of a one-off event, its run was triggered or
// backfilled, the definition keeps its retries, or there is no further occurrence. `timetable` is
// the definition's (null: none). `state` is the schedule's (null: not known).
std::optional<absl::Time> RetryEnd(const storage::v1::EventRecord& row,
                                   const storage::v1::DefinitionRecord& definition,
                                   const cron::Timetable* timetable, const CachedState* state);

// True if the row waits for a retry that could only begin at or after RetryEnd.
bool RetryIsOver(const storage::v1::EventRecord& row,
                 const storage::v1::DefinitionRecord& definition, const cron::Timetable* timetable,
                 const CachedState* state, absl::Time now);

// RememberAttempt: the failed attempts that a row remembers.
//
// A row has its last attempts only, with their texts cut, because it is copied with each claim.
//
// Pure.

inline constexpr int kAttemptsRemembered = 9;
inline constexpr size_t kRememberedErrorBytesMax = 256;
inline constexpr size_t kRememberedAnswerBytesMax = 512;

// Adds the attempt to row.tried. The oldest of more than kAttemptsRemembered goes.
void RememberAttempt(storage::v1::AttemptRecord attempt, storage::v1::EventRecord& row);

}  // namespace escapement

#endif  // COMMON_RECORDS_RETRY_END_H_
