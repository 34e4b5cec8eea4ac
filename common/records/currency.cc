#include "common/records/currency.h"

#include "absl/algorithm/container.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"

namespace escapement {

using storage::v1::EventRecord;
using storage::v1::StateRecord;
using Action = RowVerdict::Action;

namespace {

// False for a row that a resume or an update has written beyond max_runs.
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

RowVerdict JudgeRow(const EventRecord& row, absl::string_view occurrence, const StateRecord* state,
                    std::optional<bool> current_has) {
  constexpr RowVerdict kSend{.action = Action::kSend};
  constexpr RowVerdict kSkipSuperseded{.action = Action::kSkip, .reason = kSuperseded};
  if (state == nullptr || state->kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED)
    return {.action = Action::kSkip, .reason = kScheduleDeleted};
  if (const auto reason = CancelReason(row, occurrence, *state); reason.has_value()) {
    return {
        .action = Action::kSkip, .outcome = storage::v1::OUTCOME_KIND_CANCELLED, .reason = *reason};
  }
  if (HeldByPause(row, *state)) return {.action = Action::kPark};
  if (row.triggered()) return kSend;
  if (state->version() == row.version()) return BeforeFinish(row, *state) ? kSend : kSkipSuperseded;
  if (!current_has.has_value()) return {.action = Action::kFetch};
  return *current_has ? kSend : kSkipSuperseded;
}

}  // namespace escapement
