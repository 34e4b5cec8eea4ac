// The log that several stores share has one leader at a time: epochs only grow, each term begins
// with its leader's row, and nothing follows on a handover in its term. At the end every copy is as
// the log says.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_LOG_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_LOG_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Rules "log" and "copy".
std::vector<Violation> CheckLog(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_LOG_H_
