// EndBatch: the one group that makes the outcomes of many claimed events durable.
//
// Done records cover contiguous indices of equal outcome; retries become rows of the retry lane;
// dead letters are kept; the claims' end rows (or, with its last end, the claim itself) go with
// them, and so do the counts of runs. Of granted events there are none of these but reports to the
// owners of their policy shards (grant_reports.h).
//
// Pure: adds to a batch, decides nothing.

#ifndef SERVICES_HANDLER_ENDS_END_BATCH_H_
#define SERVICES_HANDLER_ENDS_END_BATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/claims/claim.h"
#include "services/handler/granted/grant_reports.h"
#include "services/handler/intake/due_queue.h"

namespace escapement::handler {

// By key in `run_parts`: the counts as they are in the store.
using RunParts = std::map<std::string, storage::v1::RunPartRecord>;

struct EndBatch {
  kv::Group group;
  RunParts parts;  // as they are once the group is applied
  // What follows in memory once it is applied.
  // Written to `events`: retries and what was returned.
  std::vector<QueuedRow> rows;                   // seen at the seq at which it is applied
  std::vector<std::string> released_keys;        // rows of one-off events that are gone
  std::vector<std::shared_ptr<Claim>> finished;  // claims without an open event
  uint64_t succeeded = 0;
  uint64_t dead_letters = 0;
  uint64_t skipped = 0;
  uint64_t retried = 0;
};

// The keys in `run_parts` that the outcomes count in.
std::vector<std::string> RunPartKeys(const std::vector<Outcome>& outcomes);

// Sorts `outcomes`. Counts them off their claims' `open` and numbers the end rows: the group must
// be committed or the shard dropped. `parts` has what RunPartKeys names (a missing one is empty).
// `origin` names the reports on granted events.
EndBatch BuildEndBatch(std::vector<Outcome>& outcomes, const RunParts& parts,
                       const ReportOrigin& origin);

// The end of a row that was not claimed: parked, skipped or cancelled for `reason`, or failed (one
// event that waited for another attempt); the row is deleted. `at_micros` is now.
struct RowEnd {
  ClaimedEntry entry;  // of kFailed with its context, else without
  std::string payload;
  EndKind kind = EndKind::kSkipped;
  std::string reason;
  std::vector<kv::Mutation> moved = {};  // of kMove: the rows by which its events wait instead
};
// Counts it in `changed`, on top of `parts`; PutParts writes that once the group has all its rows.
void AddRowEnd(const RowEnd& end, int64_t at_micros, const RunParts& parts, kv::Group& group,
               RunParts& changed);
void PutParts(const RunParts& parts, kv::Group& group);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_END_BATCH_H_
