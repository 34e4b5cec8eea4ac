#include "common/records/retry_end.h"

#include <algorithm>
#include <utility>

#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"

namespace escapement {

namespace {

// The occurrence in whose period the row is.
absl::Time OccurrenceOf(const storage::v1::EventRecord& row) {
  const int64_t nominal = row.nominal_time_micros();
  if (!row.has_throttle() || !row.throttle().has_window()) return FromMicros(nominal);
  const int64_t begin = row.throttle().window_begin_micros();
  const bool carried_over = begin != row.launch_time_micros();
  return FromMicros(carried_over ? std::max(nominal, begin) : nominal);
}

}  // namespace

absl::Time TriedSince(const storage::v1::EventRecord& row, absl::Time now) {
  return row.tried_since_micros() != 0 ? FromMicros(row.tried_since_micros()) : now;
}

void NoteTried(int64_t tried_micros, storage::v1::EventRecord& row) {
  if (row.tried_since_micros() == 0) row.set_tried_since_micros(tried_micros);
}

uint32_t AttemptsOfRound(const storage::v1::EventRecord& row, uint32_t attempts) {
  return attempts - std::min(attempts, row.attempts_before_redrive());
}

std::optional<absl::Time> RetryEnd(const storage::v1::EventRecord& row,
                                   const storage::v1::DefinitionRecord& definition,
                                   const cron::Timetable* timetable, const CachedState* state) {
  if (row.version() == 0 || row.triggered() || timetable == nullptr ||
      definition.delivery().retry().keep())
    return std::nullopt;
  const std::optional<cron::Occurrence> next = timetable->FirstAfter(OccurrenceOf(row));
  if (!next.has_value()) return std::nullopt;
  // By then the schedule has used all of its max_runs.
  if (state != nullptr && state->record.has_value() && next->instant >= FinishOf(*state->record))
    return std::nullopt;
  return next->instant;
}

bool RetryIsOver(const storage::v1::EventRecord& row,
                 const storage::v1::DefinitionRecord& definition, const cron::Timetable* timetable,
                 const CachedState* state, absl::Time now) {
  if (row.attempts() == 0) return false;
  const std::optional<absl::Time> end = RetryEnd(row, definition, timetable, state);
  return end.has_value() && now >= *end;
}

void RememberAttempt(storage::v1::AttemptRecord attempt, storage::v1::EventRecord& row) {
  attempt.set_error(CleanText(attempt.error(), kRememberedErrorBytesMax));
  if (attempt.answer().size() > kRememberedAnswerBytesMax)
    attempt.mutable_answer()->resize(kRememberedAnswerBytesMax);
  auto& tried = *row.mutable_tried();
  const int surplus = tried.size() + 1 - kAttemptsRemembered;
  if (surplus > 0) tried.DeleteSubrange(0, surplus);
  *tried.Add() = std::move(attempt);
}

}  // namespace escapement
