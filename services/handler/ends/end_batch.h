// EndBatch plans the commit that makes ends durable.
//
// ClaimEndOf: the record which events of a claim have ended.
//
// Pure.

#ifndef SERVICES_HANDLER_ENDS_END_BATCH_H_
#define SERVICES_HANDLER_ENDS_END_BATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/kv/kv_store.h"
#include "common/statistics/minute_sums.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/sending/claim.h"
#include "services/handler/shard/claim_batch.h"
#include "services/handler/shard/due_queue.h"

namespace escapement::handler {

// The outcomes must be of one claim, in the order of entries and events.
storage::v1::ClaimEndRecord ClaimEndOf(absl::Span<const Outcome> outcomes);

// The order in which outcomes become records. A pure function.

// Sorts by claim, entry and first event. No two outcomes may be of one event.
void SortByEvent(std::vector<Outcome>& outcomes);

// RunCounts: the counts that the end of an event changes: those of its run, and those of all runs
// of its schedule.
//
// Pure. Threads: one, the handler's executor.

// Counts by key in `run_parts`: those that a commit changes, and those that are known. The latter
// are never iterated.
using RunParts = std::map<std::string, storage::v1::RunPartRecord>;
using KnownParts = absl::node_hash_map<std::string, storage::v1::RunPartRecord>;
using RunPartKeys = absl::InlinedVector<std::string, 2>;

storage::v1::OutcomeKind OutcomeKindOf(EndKind kind);

// The keys in `run_parts` of the counts that such an end of the entry's events changes. None for
// granted events: the owner of their policy shard counts them.
RunPartKeys RunPartKeysOf(const ClaimedEntry& entry, EndKind kind);

// Counts `count` events that the outcomes, which are alike, have ended. The new counts go to
// `changed`, on top of `parts`, which must have an entry for each of RunPartKeysOf.
void CountEnds(const ClaimedEntry& entry, absl::Span<const Outcome> outcomes, uint64_t count,
               const KnownParts& parts, RunParts& changed);

void PutParts(const RunParts& parts, kv::Group& group);

// Counts `count` events of the entry for statistics, if this kind ends them. `attempts`: how many
// have begun.
void CountEnded(const ClaimedEntry& entry, EndKind kind, uint32_t attempts, uint64_t count,
                EndedEvents& ended);

// EndBatch: builds the one group that makes the outcomes of many claimed events durable.
//
// A Done record covers neighbouring events with equal outcomes. Retries become rows of the retry
// lane, and failures become dead letters. The group also writes the claim's end row, or deletes the
// claim with its last end, and adds to the counts. Granted events have none of
// these, only reports to the owners of their policy shards (claim_batch.h). If the target of an
// event is gone for good, the group also asks the masters to pause the event's schedule.
//
// Pure: adds to a batch, decides nothing.

struct EndBatch {
  kv::Group group;
  RunParts parts;  // the counts after the group
  // Changes in memory once the group is applied.
  std::vector<QueuedRow> rows;  // written to `events`: retries, returned events
  // One-off rows that no claim holds any more; keys of the claims' entries.
  std::vector<absl::string_view> released_keys;
  std::vector<std::shared_ptr<Claim>> finished;  // claims without an open event
  std::vector<std::shared_ptr<Claim>> tried;     // claims whose `trial` ends
  uint64_t succeeded = 0;
  uint64_t dead_letters = 0;
  uint64_t skipped = 0;
  uint64_t retried = 0;
  EndedEvents ended;  // not granted events: the owner of their policy shard counts them
};

// Calls `visit` with the keys in `run_parts` of the counts that the outcomes change. Some come more
// than once.
void VisitRunParts(absl::Span<const Outcome> outcomes,
                   absl::FunctionRef<void(std::string key)> visit);

// Sorts `outcomes`, subtracts them from `open` of their claims, and numbers the end rows: the
// caller must commit the group or drop the shard. `parts` must have an entry for each key of
// VisitRunParts. `origin` is the key of the reports on granted events.
EndBatch BuildEndBatch(std::vector<Outcome>& outcomes, const KnownParts& parts,
                       const ReportOrigin& origin);

// The end of a row without a claim. The row is deleted. kFailed is for events that waited for their
// first or another attempt.
struct RowEnd {
  ClaimedEntry entry = {};  // with context only for kFailed
  std::string payload = {};
  EndKind kind = EndKind::kSkipped;
  std::string reason = {};
  std::vector<kv::Mutation> moved = {};  // only for kMove: the rows that replace it
  // Only for kFailed: how many events after those of the entry do not end now.
  uint64_t rest = 0;
};
// The row that replaces the row, if it has a rest.
kv::Mutation RestOf(const RowEnd& end);
// Adds the row's end to the group, without RestOf. Its counts go to `changed`, on top of `parts`;
// PutParts writes them once the group has all its rows. `at_micros` is now.
void AddRowEnd(const RowEnd& end, int64_t at_micros, const KnownParts& parts, kv::Group& group,
               RunParts& changed);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_END_BATCH_H_
