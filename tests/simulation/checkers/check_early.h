// Never early: no receipt comes before the true time at which its event is due. The naive expander
// and users' calls say when that is.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_EARLY_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_EARLY_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: computed from this history.
std::vector<Violation> CheckEarly(const History& history, const Expectations& expected);
std::vector<Violation> CheckEarly(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_EARLY_H_
