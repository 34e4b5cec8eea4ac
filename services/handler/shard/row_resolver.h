// ResolveRow: parses a queue row, finds its state and definition, and judges it.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SHARD_ROW_RESOLVER_H_
#define SERVICES_HANDLER_SHARD_ROW_RESOLVER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/records/record_cache.h"
#include "common/records/row_judge.h"
#include "services/handler/sending/claim.h"
#include "services/handler/shard/due_queue.h"

namespace escapement::handler {

struct ResolvedRow {
  // The judgement of the row; nullopt: the row cannot be read. For a one-off event without a state:
  // kSend, kFetch, or kSkip if its definition is gone.
  std::optional<RowJudgement> judged = std::nullopt;
  ClaimedEntry entry = {};   // complete for kSend, otherwise without context
  std::string payload = {};  // only of a one-off event that is skipped

  bool Is(RowJudgement::Action action) const {
    return judged.has_value() && judged->action == action;
  }
};

// How a row that is not sent ends without a claim. Not for kSend and kFetch.
EndKind EndKindOf(const RowJudgement& judged);

// The context for sending a schedule's events under `definition`, which must have a record.
std::shared_ptr<const DeliveryContext> ContextOfScheduled(
    std::shared_ptr<const CachedDefinition> definition, const ClaimedEntry& entry);

// Never returns null. The result keeps the bytes of the row.
std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, const QueuedRow& row);

// Judges a row again whose judgement was kFetch.
void JudgeAgain(RecordCache& cache, ResolvedRow& row);

// The same as ResolveRow for a row that is parsed already.
std::unique_ptr<ResolvedRow> ResolveRow(RecordCache& cache, absl::string_view event_key,
                                        storage::v1::EventRecord event);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_ROW_RESOLVER_H_
