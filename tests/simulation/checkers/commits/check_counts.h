// A schedule's counts of all its runs, judged from the store's own log: each commit adds to them
// the events that it ends as succeeded and as failed, no more and no less.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_COUNTS_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_COUNTS_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckCounts(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_COUNTS_H_
