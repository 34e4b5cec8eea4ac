// Converts the store's records to a history's writes of throttled events.

#ifndef TESTS_SIMULATION_RECORD_THROTTLE_LOG_H_
#define TESTS_SIMULATION_RECORD_THROTTLE_LOG_H_

#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Appends the effects of one applied mutation on policies, states, grants, rows, granted claims,
// ends and reports.
void ReadThrottleWrites(const kv::Mutation& mutation, std::vector<ThrottleWrite>* out);

// One line, for traces. Empty if the mutation has no such effect.
std::string DescribeThrottle(const kv::Mutation& mutation);

// Rows of `grants` (except counts) and of `waiting`, as text.
std::vector<std::string> ReadThrottleLeftover(const kv::MemDisk& disk);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_THROTTLE_LOG_H_
