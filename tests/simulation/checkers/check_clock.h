// The stamps of the store's clock never go back. They leap only if an operator confirmed the wall
// clock, or if the wall clock had been set at least five seconds before. That step is of minutes,
// or larger if the kernel called the clock synchronised and all other machines showed the same.
// While the clock is held, nothing is planned.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_CLOCK_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_CLOCK_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckClock(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_CLOCK_H_
