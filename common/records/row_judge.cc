#include "common/records/row_judge.h"

#include "common/records/currency.h"

namespace escapement {
namespace {

using Action = RowJudgement::Action;
using storage::v1::EventRecord;

enum class Doubled { kNo, kYes, kUnknown };

// A schedule that was changed away from this occurrence and, before it was due, back to it: the
// change back has made rows of its own, and this one is left over. (The same definition again makes
// the same key, and so no second row; another n or priority does not.)
Doubled MadeAgain(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                  const EventRecord& row, uint64_t current_version) {
  if (row.triggered()) return Doubled::kNo;
  const int64_t nominal = row.nominal_time_micros();
  bool away = false;
  for (uint64_t version = row.version() + 1; version <= current_version; ++version) {
    // Only two changes can lead away and back.
    if (current_version < row.version() + 2) break;
    const auto definition = cache.Definition(uid, version);
    if (definition == nullptr) return Doubled::kUnknown;
    if (definition->record == nullptr) break;
    const bool has = HasOccurrence(*definition->record, occurrence, nominal);
    if (away && has && nominal >= definition->record->create_time_micros()) return Doubled::kYes;
    away = !has;
  }
  return Doubled::kNo;
}

RowJudgement Skip(RowJudgement judged, absl::string_view reason) {
  judged.action = Action::kSkip;
  judged.reason = std::string(reason);
  return judged;
}

// Where the rows of a definition wait: by policy, or on their own.
bool SamePlace(const EventRecord& row, const storage::v1::DefinitionRecord& definition) {
  return row.has_throttle() == definition.has_throttle() &&
         row.throttle().policy_id() == definition.throttle().policy_id();
}

}  // namespace

RowJudgement JudgeScheduledRow(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                               const EventRecord& row) {
  RowJudgement judged;
  judged.state = cache.State(uid);
  if (judged.state == nullptr) {
    // Most rows are of the current version: both are read at once.
    cache.Definition(uid, row.version());
    return judged;
  }
  const storage::v1::StateRecord* state =
      judged.state->record.has_value() ? &*judged.state->record : nullptr;
  const auto definition = state == nullptr ? nullptr : cache.Definition(uid, state->version());
  const Doubled doubled =
      state == nullptr ? Doubled::kNo : MadeAgain(cache, uid, occurrence, row, state->version());
  if (doubled == Doubled::kUnknown) return judged;
  if (doubled == Doubled::kYes) {
    judged.action = Action::kDrop;
    return judged;
  }
  switch (JudgeRow(row, occurrence, state,
                   definition == nullptr ? nullptr : definition->record.get())) {
    case Currency::kPark:
      judged.action = Action::kPark;
      return judged;
    case Currency::kDeleted:
      return Skip(std::move(judged), "deleted");
    case Currency::kSuperseded:
      return Skip(std::move(judged), "superseded");
    case Currency::kNeedsDefinition:
    case Currency::kSend:
      break;
  }
  if (definition == nullptr) return judged;
  // The definition went with its schedule; the state that is known is a moment old.
  if (definition->record == nullptr) return Skip(std::move(judged), "deleted");
  judged.action = SamePlace(row, *definition->record) ? Action::kSend : Action::kMove;
  judged.definition = definition;
  return judged;
}

}  // namespace escapement
