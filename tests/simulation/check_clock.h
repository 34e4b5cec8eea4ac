// The store's clock: its stamps never go back and never leap but where an operator confirmed the
// wall clock; and while it is held nothing is planned.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECK_CLOCK_H_
#define TESTS_SIMULATION_CHECK_CLOCK_H_

#include <vector>

#include "tests/simulation/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckClock(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECK_CLOCK_H_
