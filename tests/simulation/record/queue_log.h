// Converts the store's records to a history's writes of claims, queues, states and requests.

#ifndef TESTS_SIMULATION_RECORD_QUEUE_LOG_H_
#define TESTS_SIMULATION_RECORD_QUEUE_LOG_H_

#include <vector>

#include "common/kv/engine/commit_engine.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// The effects of the commit's applied groups on them.
std::vector<QueueWrite> ReadQueueWrites(const kv::CommitRecord& record);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_QUEUE_LOG_H_
