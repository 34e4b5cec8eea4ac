// Nothing lost: each expected event ends in exactly one outcome, nothing ends that nobody asked
// for, and no queue holds a row for ever.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECK_LOST_H_
#define TESTS_SIMULATION_CHECK_LOST_H_

#include <vector>

#include "tests/simulation/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckLost(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECK_LOST_H_
