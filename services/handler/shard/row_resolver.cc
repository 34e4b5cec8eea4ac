#include "services/handler/shard/row_resolver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/proto_time.h"

namespace escapement::handler {
namespace {

using Action = RowJudgement::Action;

std::shared_ptr<DeliveryContext> MakeContext(const CachedDefinition& definition,
                                             const ClaimedEntry& entry) {
  auto context = std::make_shared<DeliveryContext>();
  context->definition = definition.record;
  context->timetable = definition.timetable;
  context->target_key = definition.target_key;
  context->closed = definition.closed;
  context->timeout = definition.timeout;
  context->occurrence = entry.key.occurrence;
  context->nominal_time = FromMicros(entry.event.nominal_time_micros());
  context->launch_time = FromMicros(entry.event.launch_time_micros());
  context->run_count = std::max<uint64_t>(entry.event.run_count(), 1);
  context->trace_parent = entry.event.trace_parent();
  return context;
}

void ResolveOneOff(RecordCache& cache, ResolvedRow& row) {
  std::shared_ptr<const std::string> payload(row.entry.event.release_payload());
  if (payload == nullptr) payload = std::make_shared<const std::string>();
  const std::string& hash = row.entry.event.definition_hash();
  if (hash.size() != Uid::kBytes) return;
  const auto definition = cache.Definition(Uid::FromBytes(hash), 0);
  RowJudgement& judged = row.judged.emplace();
  if (definition == nullptr) {
    judged.action = Action::kFetch;
  } else if (definition->record == nullptr) {
    judged.action = Action::kSkip;
    judged.reason = std::string(kScheduleDeleted);
    row.payload = *payload;
  } else {
    judged.action = Action::kSend;
    auto context = MakeContext(*definition, row.entry);
    context->payload = std::move(payload);
    context->source =
        absl::StrCat("/tenants/", row.entry.event.tenant(), "/events/", row.entry.EventId(0));
    row.entry.context = std::move(context);
    row.entry.row_stays = true;
  }
}

void ResolveScheduled(RecordCache& cache, ResolvedRow& row) {
  row.judged = JudgeQueueRow(cache, row.entry.key.uid, row.entry.key.occurrence, row.entry.event);
  if (row.judged->action != Action::kSend) return;
  const CachedDefinition& definition = *row.judged->definition;
  row.entry.context = ContextOfScheduled(definition, row.entry);
  row.entry.claimed_version = definition.record->version();
}

// Fills in `row`, whose event is set.
void Resolve(RecordCache& cache, absl::string_view event_key, ResolvedRow& row) {
  std::optional<EventKey> key = DecodeEventKey(event_key);
  if (!key.has_value() || row.entry.event.count() == 0) return;
  row.entry.event_key = std::string(event_key);
  row.entry.key = *std::move(key);
  if (row.entry.one_off()) {
    ResolveOneOff(cache, row);
  } else {
    ResolveScheduled(cache, row);
  }
}

}  // namespace

EndKind EndKindOf(const RowJudgement& judged) {
  switch (judged.action) {
    case Action::kPark:
      return EndKind::kPark;
    case Action::kMove:
      return EndKind::kMove;
    case Action::kDrop:
      return EndKind::kGone;
    case Action::kSkip:
      if (judged.outcome == storage::v1::OUTCOME_KIND_EXPIRED) return EndKind::kExpired;
      return judged.outcome == storage::v1::OUTCOME_KIND_CANCELLED ? EndKind::kCancelled
                                                                   : EndKind::kSkipped;
    case Action::kSend:
    case Action::kFetch:
      break;
  }
  CHECK(false) << "the row does not end";
  return EndKind::kGone;
}

std::shared_ptr<const DeliveryContext> ContextOfScheduled(const CachedDefinition& definition,
                                                          const ClaimedEntry& entry) {
  auto context = MakeContext(definition, entry);
  context->payload = definition.payload;
  context->source = absl::StrCat("/tenants/", definition.record->tenant(), "/schedules/",
                                 definition.record->schedule_id());
  return context;
}

std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, absl::string_view event_key,
                                        absl::string_view value) {
  auto row = std::make_unique<ResolvedRow>();
  if (row->entry.event.ParseFromArray(value.data(), static_cast<int>(value.size())))
    Resolve(cache, event_key, *row);
  return row;
}

std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, absl::string_view event_key,
                                        storage::v1::EventRecord event) {
  auto row = std::make_unique<ResolvedRow>();
  row->entry.event = std::move(event);
  Resolve(cache, event_key, *row);
  return row;
}

}  // namespace escapement::handler
