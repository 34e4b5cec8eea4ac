// Converts the store's records to the values of a history.

#ifndef TESTS_SIMULATION_RECORD_COMMIT_LOG_H_
#define TESTS_SIMULATION_RECORD_COMMIT_LOG_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/kv_store.h"
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

// Converts the store's records to a history's writes of claims, queues, states and requests.

// The effects of the commit's applied groups on them.
std::vector<QueueWrite> ReadQueueWrites(const kv::CommitRecord& record);

// Converts the store's records to a history's writes of throttled events.

// Appends the effects of one applied mutation on policies, states, grants, rows, granted claims,
// ends and reports.
void ReadThrottleWrites(const kv::Mutation& mutation, std::vector<ThrottleWrite>* out);

// One line, for traces. Empty if the mutation has no such effect.
std::string DescribeThrottle(const kv::Mutation& mutation);

// Rows of `grants` (except counts) and of `waiting`, as text.
std::vector<std::string> ReadThrottleLeftover(const kv::MemDisk& disk);

// Reads from a commit what becomes of occurrences: their rows and launch records, runs that become
// active or end, outcomes, cancelled runs.

std::vector<TimesWrite> ReadTimesWrites(const kv::CommitRecord& record);

// Launch records and marks of active runs, as text.
std::vector<std::string> ReadTimesLeftover(const kv::MemDisk& disk);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_COMMIT_LOG_H_
