#include "services/handler/row_resolver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "services/handler/currency.h"

namespace escapement::handler {
namespace {

using Action = ResolvedRow::Action;

std::shared_ptr<DeliveryContext> MakeContext(const CachedDefinition& definition,
                                             const ClaimedEntry& entry) {
  auto context = std::make_shared<DeliveryContext>();
  context->definition = definition.record;
  context->target_key = definition.target_key;
  context->timeout = definition.timeout;
  context->occurrence = entry.key.occurrence;
  context->nominal_time = FromMicros(entry.event.nominal_time_micros());
  context->launch_time = FromMicros(entry.event.launch_time_micros());
  context->run_count = std::max<uint64_t>(entry.event.run_count(), 1);
  return context;
}

void ResolveOneOff(RecordCache& cache, std::string payload, ResolvedRow& row) {
  row.payload = std::move(payload);
  const std::string& hash = row.entry.event.definition_hash();
  if (hash.size() != Uid::kBytes) return;
  const auto definition = cache.Definition(Uid::FromBytes(hash), 0);
  if (definition == nullptr) {
    row.action = Action::kFetch;
  } else if (definition->record == nullptr) {
    row.action = Action::kSkip;
    row.reason = "deleted";
  } else {
    row.action = Action::kSend;
    auto context = MakeContext(*definition, row.entry);
    context->payload = std::make_shared<const std::string>(std::move(row.payload));
    context->source =
        absl::StrCat("/tenants/", row.entry.event.tenant(), "/events/", row.entry.event.event_id());
    row.entry.context = std::move(context);
    row.entry.row_stays = true;
  }
}

enum class Doubled { kNo, kYes, kUnknown };

// A schedule that was changed away from this occurrence and, before it was due, back to it: the
// change back has made rows of its own, and this one is left over. (The same definition again makes
// the same key, and so no second row; another n or priority does not.)
Doubled MadeAgain(RecordCache& cache, const ClaimedEntry& entry, uint64_t current_version) {
  if (entry.event.triggered()) return Doubled::kNo;
  const int64_t nominal = entry.event.nominal_time_micros();
  bool away = false;
  for (uint64_t version = entry.event.version() + 1; version <= current_version; ++version) {
    // Only two changes can lead away and back.
    if (current_version < entry.event.version() + 2) break;
    const auto definition = cache.Definition(entry.key.uid, version);
    if (definition == nullptr) return Doubled::kUnknown;
    if (definition->record == nullptr) break;
    const bool has = HasOccurrence(*definition->record, entry.key.occurrence, nominal);
    if (away && has && nominal >= definition->record->create_time_micros()) return Doubled::kYes;
    away = !has;
  }
  return Doubled::kNo;
}

void ResolveScheduled(RecordCache& cache, ResolvedRow& row) {
  const Uid& uid = row.entry.key.uid;
  row.state = cache.State(uid);
  if (row.state == nullptr) {
    // Most rows are of the current version: both are read at once.
    cache.Definition(uid, row.entry.event.version());
    row.action = Action::kFetch;
    return;
  }
  const storage::v1::StateRecord* state =
      row.state->record.has_value() ? &*row.state->record : nullptr;
  const auto definition = state == nullptr ? nullptr : cache.Definition(uid, state->version());
  const Doubled doubled =
      state == nullptr ? Doubled::kNo : MadeAgain(cache, row.entry, state->version());
  if (doubled != Doubled::kNo) {
    row.action = doubled == Doubled::kYes ? Action::kDrop : Action::kFetch;
    return;
  }
  switch (JudgeRow(row.entry.event, row.entry.key.occurrence, state,
                   definition == nullptr ? nullptr : definition->record.get())) {
    case Currency::kPark:
      row.action = Action::kPark;
      return;
    case Currency::kDeleted:
      row.action = Action::kSkip;
      row.reason = "deleted";
      return;
    case Currency::kSuperseded:
      row.action = Action::kSkip;
      row.reason = "superseded";
      return;
    case Currency::kNeedsDefinition:
    case Currency::kSend:
      break;
  }
  if (definition == nullptr) {
    row.action = Action::kFetch;
    return;
  }
  if (definition->record == nullptr) {
    // The definition went with its schedule; the state that is known is a moment old.
    row.action = Action::kSkip;
    row.reason = "deleted";
    return;
  }
  row.action = Action::kSend;
  auto context = MakeContext(*definition, row.entry);
  context->payload = definition->payload;
  context->source = absl::StrCat("/tenants/", definition->record->tenant(), "/schedules/",
                                 definition->record->schedule_id());
  row.entry.context = std::move(context);
  row.entry.claimed_version = state->version();
}

}  // namespace

ResolvedRow ResolveRow(RecordCache& cache, absl::string_view event_key,
                       storage::v1::EventRecord event) {
  ResolvedRow row;
  std::optional<EventKey> key = DecodeEventKey(event_key);
  if (!key.has_value() || event.count() == 0) return row;
  std::string payload = std::move(*event.mutable_payload());
  event.clear_payload();
  row.entry.event_key = std::string(event_key);
  row.entry.key = *std::move(key);
  row.entry.event = std::move(event);
  if (row.entry.one_off()) {
    ResolveOneOff(cache, std::move(payload), row);
  } else {
    ResolveScheduled(cache, row);
  }
  return row;
}

ResolvedRow ResolveRow(RecordCache& cache, absl::string_view event_key, absl::string_view value) {
  storage::v1::EventRecord event;
  if (!event.ParseFromArray(value.data(), static_cast<int>(value.size()))) return ResolvedRow();
  return ResolveRow(cache, event_key, std::move(event));
}

}  // namespace escapement::handler
