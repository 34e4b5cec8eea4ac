// All checkers over one history.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_ALL_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_ALL_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckAll(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_ALL_H_
