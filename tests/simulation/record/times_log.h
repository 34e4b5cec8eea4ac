// Reads from a commit what becomes of occurrences: their rows and launch records, runs that become
// active or end, outcomes, cancelled runs.

#ifndef TESTS_SIMULATION_RECORD_TIMES_LOG_H_
#define TESTS_SIMULATION_RECORD_TIMES_LOG_H_

#include <string>
#include <vector>

#include "common/kv/engine/commit_engine.h"
#include "common/kv/memory/mem_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<TimesWrite> ReadTimesWrites(const kv::CommitRecord& record);

// Launch records and marks of active runs, as text.
std::vector<std::string> ReadTimesLeftover(const kv::MemDisk& disk);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_TIMES_LOG_H_
