#include "common/records/currency.h"

#include "common/base/micros.h"
#include "common/storage/child_rows.h"

namespace escapement {

using storage::v1::DefinitionRecord;
using storage::v1::EventRecord;
using storage::v1::StateRecord;

bool HasOccurrence(const DefinitionRecord& definition, absl::string_view occurrence,
                   int64_t nominal_micros) {
  const auto timetable = TimetableOf(definition);
  return timetable.ok() && timetable->Has(occurrence, FromMicros(nominal_micros));
}

Currency JudgeRow(const EventRecord& row, absl::string_view occurrence, const StateRecord* state,
                  const DefinitionRecord* current) {
  if (state == nullptr || state->kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED)
    return Currency::kDeleted;
  if (state->kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED) return Currency::kPark;
  if (state->version() == row.version() || row.triggered()) return Currency::kSend;
  if (current == nullptr) return Currency::kNeedsDefinition;
  return HasOccurrence(*current, occurrence, row.nominal_time_micros()) ? Currency::kSend
                                                                        : Currency::kSuperseded;
}

}  // namespace escapement
