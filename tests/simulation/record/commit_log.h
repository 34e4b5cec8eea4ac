// Converts the store's records to the values of a history.

#ifndef TESTS_SIMULATION_RECORD_COMMIT_LOG_H_
#define TESTS_SIMULATION_RECORD_COMMIT_LOG_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/memory/mem_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Reads what the checkers need from a durable commit: leases, fences, writes that only owners may
// make, checkpoints, ends, and moves of throttled events. `now`: true time.
Commit ReadCommit(const kv::CommitRecord& record, absl::Time now);

// One line about the commit's effect on queues, claims and Done, for traces. Empty if there is
// none.
std::string DescribeCommit(const kv::CommitRecord& record);

// All rows of Done.
std::vector<DoneRow> ReadDone(const kv::MemDisk& disk);

// Whether the families of queues hold rows, whether events wait for tokens, and whether a grant is
// held. (The grants' family holds counts, too.)
bool AnyQueued(const kv::MemDisk& disk);
bool AnyWaiting(const kv::MemDisk& disk);
bool AnyGrant(const kv::MemDisk& disk);

// Rows of `events`, `inflight`, `waiting`, `grants`, `parked` and `children`, as text.
std::vector<std::string> ReadLeftover(const kv::MemDisk& disk);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_COMMIT_LOG_H_
