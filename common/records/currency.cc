#include "common/records/currency.h"

#include "absl/algorithm/container.h"
#include "common/base/micros.h"
#include "common/storage/child_rows.h"

namespace escapement {

using storage::v1::EventRecord;
using storage::v1::StateRecord;

namespace {

// A row that a resume or an update has made may prove to be one too many for max_runs.
bool BeforeFinish(const EventRecord& row, const StateRecord& state) {
  return FromMicros(row.nominal_time_micros()) < FinishOf(state);
}

}  // namespace

bool HasOccurrence(const cron::Timetable* timetable, absl::string_view occurrence,
                   int64_t nominal_micros, absl::Time finish) {
  const absl::Time nominal = FromMicros(nominal_micros);
  return timetable != nullptr && nominal < finish && timetable->Has(occurrence, nominal);
}

bool HeldByPause(const EventRecord& row, const StateRecord& state) {
  return state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED &&
         row.trigger_time_micros() <= state.pause_time_micros();
}

bool CancelledByUser(absl::string_view occurrence, const StateRecord& state) {
  return absl::c_any_of(state.cancelled_runs(),
                        [&](const auto& run) { return run.occurrence() == occurrence; });
}

std::optional<absl::string_view> CancelReason(const EventRecord& row, absl::string_view occurrence,
                                              const StateRecord& state) {
  if (CancelledByUser(occurrence, state)) return kCancelledByUser;
  if (!row.triggered() && row.nominal_time_micros() < state.cancelled_before_micros())
    return kOverlap;
  return std::nullopt;
}

Currency JudgeRow(const EventRecord& row, absl::string_view occurrence, const StateRecord* state,
                  std::optional<bool> current_has) {
  if (state == nullptr || state->kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED)
    return Currency::kDeleted;
  if (CancelReason(row, occurrence, *state).has_value()) return Currency::kCancelled;
  if (HeldByPause(row, *state)) return Currency::kPark;
  if (row.triggered()) return Currency::kSend;
  if (state->version() == row.version())
    return BeforeFinish(row, *state) ? Currency::kSend : Currency::kSuperseded;
  if (!current_has.has_value()) return Currency::kNeedsDefinition;
  return *current_has ? Currency::kSend : Currency::kSuperseded;
}

}  // namespace escapement
