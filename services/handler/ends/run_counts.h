// RunCounts: the counts that the end of an event changes: those of its run, and those of all runs
// of its schedule.
//
// Pure. Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_ENDS_RUN_COUNTS_H_
#define SERVICES_HANDLER_ENDS_RUN_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/sending/claim.h"

namespace escapement::handler {

// Counts by key in `run_parts`.
using RunParts = std::map<std::string, storage::v1::RunPartRecord>;

storage::v1::OutcomeKind OutcomeKindOf(EndKind kind);

// The keys in `run_parts` of the counts that such an end of the entry's events changes. None for
// granted events: the owner of their policy shard counts them.
std::vector<std::string> RunPartKeysOf(const ClaimedEntry& entry, EndKind kind);

// Counts `count` events that have ended like `first`, the last of them at end_micros. The new
// counts go to `changed`, on top of `parts`, which must have an entry for each of RunPartKeysOf.
void CountEnd(const ClaimedEntry& entry, const Outcome& first, uint64_t count, int64_t end_micros,
              const RunParts& parts, RunParts& changed);

void PutParts(const RunParts& parts, kv::Group& group);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_ENDS_RUN_COUNTS_H_
