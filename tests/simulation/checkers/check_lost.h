// Nothing is lost. Each expected event ends in exactly one outcome. Nothing ends that nobody asked
// for. No queue holds a row for ever.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_LOST_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_LOST_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: computed from this history.
std::vector<Violation> CheckLost(const History& history, const Expectations& expected);
std::vector<Violation> CheckLost(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_LOST_H_
