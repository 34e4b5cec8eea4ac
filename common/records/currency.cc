#include "common/records/currency.h"

#include <optional>
#include <string_view>

#include "common/base/micros.h"
#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/occurrence_id.h"
#include "common/cron/zone.h"

namespace escapement {

using storage::v1::DefinitionRecord;
using storage::v1::EventRecord;
using storage::v1::StateRecord;

bool HasOccurrence(const DefinitionRecord& definition, absl::string_view occurrence,
                   int64_t nominal_micros) {
  const auto expression = cron::ParseCron(definition.cron());
  const auto zone = cron::Zone::Load(definition.time_zone());
  if (!expression.ok() || !zone.ok()) return false;
  const absl::Time nominal = FromMicros(nominal_micros);
  const std::optional<cron::Occurrence> found =
      cron::FirstAtOrAfter(*expression, *zone, cron::DstPolicy(), nominal);
  if (!found.has_value() || found->instant != nominal) return false;
  return cron::FormatCalendarOccurrence(found->civil, found->fold, zone->name()) ==
         std::string_view(occurrence.data(), occurrence.size());
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
