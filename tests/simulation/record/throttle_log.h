// From the store's records to what a history says of throttled events.

#ifndef TESTS_SIMULATION_RECORD_THROTTLE_LOG_H_
#define TESTS_SIMULATION_RECORD_THROTTLE_LOG_H_

#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Appends what one applied mutation did to policies, states, grants, rows, granted claims, ends and
// reports.
void ReadThrottleWrites(const kv::Mutation& mutation, std::vector<ThrottleWrite>* out);

// In one line, for traces; empty if it is nothing of that.
std::string DescribeThrottle(const kv::Mutation& mutation);

// Rows of `grants` (but for counts) and of `waiting`, as text.
std::vector<std::string> ReadThrottleLeftover(const kv::MemDisk& disk);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_THROTTLE_LOG_H_
