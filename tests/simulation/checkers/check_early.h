// Never early: no receipt before the true time at which its event is due, by the naive expander and
// by what users asked.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_EARLY_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_EARLY_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: of this history.
std::vector<Violation> CheckEarly(const History& history, const Expectations& expected);
std::vector<Violation> CheckEarly(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_EARLY_H_
