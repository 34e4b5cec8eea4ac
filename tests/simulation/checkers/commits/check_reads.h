// Reads are fresh: a read shows every commit that anybody had been told of before the read was
// called. So no store answers reads after another one has begun to lead.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_READS_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_READS_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Rule "stale_read".
std::vector<Violation> CheckReads(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_READS_H_
