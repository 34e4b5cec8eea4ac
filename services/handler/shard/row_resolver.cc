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

std::shared_ptr<DeliveryContext> MakeContext(std::shared_ptr<const CachedDefinition> definition,
                                             const ClaimedEntry& entry) {
  auto context = std::make_shared<DeliveryContext>();
  context->cached = definition.get();
  context->target_key = definition->target_key;
  if (!definition->closed.empty()) context->closed = definition->closed;
  context->timeout = definition->timeout;
  if (!entry.key.occurrence.empty()) context->occurrence = entry.key.occurrence;
  context->nominal_time = FromMicros(entry.event.nominal_time_micros());
  context->launch_time = FromMicros(entry.event.launch_time_micros());
  context->run_count = std::max<uint64_t>(entry.event.run_count(), 1);
  if (!entry.event.trace_parent().empty())
    context->trace_parent = std::string(entry.event.trace_parent());
  const storage::v1::DefinitionRecord* const record = definition->record.get();
  context->definition = {std::move(definition), record};
  return context;
}

// The payload and the tenant of a row whose message does not live as long as the context.
void KeepCopies(const EventRow& event, DeliveryContext& context) {
  auto kept =
      std::make_shared<const std::pair<std::string, std::string>>(event.payload(), event.tenant());
  context.payload = kept->first;
  context.tenant = kept->second;
  context.bytes = std::move(kept);
}

void ResolveOneOff(RecordCache& cache, ResolvedRow& row) {
  const absl::string_view hash = row.entry.event.definition_hash();
  if (hash.size() != Uid::kBytes) return;
  auto definition = cache.Definition(Uid::FromBytes(hash), 0);
  RowJudgement& judged = row.judged.emplace();
  if (definition == nullptr) {
    judged.action = Action::kFetch;
  } else if (definition->record == nullptr) {
    judged.action = Action::kSkip;
    judged.reason = std::string(kScheduleDeleted);
    row.payload = std::string(row.entry.event.payload());
  } else {
    judged.action = Action::kSend;
    auto context = MakeContext(std::move(definition), row.entry);
    context->event_id = row.entry.EventId(0);
    if (row.entry.event.has_record()) {
      KeepCopies(row.entry.event, *context);
    } else {
      context->payload = row.entry.event.payload();
      context->tenant = row.entry.event.tenant();
      context->bytes = row.entry.bytes;
    }
    row.entry.context = std::move(context);
    row.entry.row_stays = true;
  }
}

void ResolveScheduled(RecordCache& cache, ResolvedRow& row) {
  // JudgeQueueRow would ask for the same. It needs the message, which is made once.
  if (cache.State(row.entry.key.uid) == nullptr) {
    cache.Definition(row.entry.key.uid, row.entry.event.version());
    row.judged.emplace();  // kFetch
    return;
  }
  if (!row.entry.event.has_record() && !row.entry.event.KeepRecord()) return;
  row.judged =
      JudgeQueueRow(cache, row.entry.key.uid, row.entry.key.occurrence, row.entry.event.record());
  if (row.judged->action != Action::kSend) return;
  row.entry.context = ContextOfScheduled(row.judged->definition, row.entry);
  row.entry.claimed_version = row.judged->definition->record->version();
}

// Fills in `row`, whose event_key and event are set.
void Resolve(RecordCache& cache, ResolvedRow& row) {
  std::optional<EventKey> key = DecodeEventKey(row.entry.event_key);
  if (!key.has_value() || row.entry.event.count() == 0) return;
  row.entry.key = *std::move(key);
  JudgeAgain(cache, row);
}

}  // namespace

void JudgeAgain(RecordCache& cache, ResolvedRow& row) {
  row.judged.reset();
  if (row.entry.one_off()) {
    ResolveOneOff(cache, row);
  } else {
    ResolveScheduled(cache, row);
  }
}

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

std::shared_ptr<const DeliveryContext> ContextOfScheduled(
    std::shared_ptr<const CachedDefinition> definition, const ClaimedEntry& entry) {
  const storage::v1::DefinitionRecord& record = *definition->record;
  auto context = MakeContext(std::move(definition), entry);
  context->payload = record.payload();
  context->source = absl::StrCat("/tenants/", record.tenant(), "/schedules/", record.schedule_id());
  return context;
}

std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, const QueuedRow& row) {
  auto resolved = std::make_unique<ResolvedRow>();
  ClaimedEntry& entry = resolved->entry;
  if (!entry.event.Read(row.value())) return resolved;
  entry.bytes = row.Share();
  entry.event_key = row.key();
  Resolve(cache, *resolved);
  return resolved;
}

std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, absl::string_view event_key,
                                        storage::v1::EventRecord event) {
  auto row = std::make_unique<ResolvedRow>();
  row->entry.event = EventRow(std::move(event));
  row->entry.SetEventKey(std::string(event_key));
  Resolve(cache, *row);
  return row;
}

}  // namespace escapement::handler
