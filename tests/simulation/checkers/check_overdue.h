// Once faults are over, nothing that is due waits for more than 30 s without being claimed:
//  - no row of `events` whose schedule is enabled (of retries: after their backoff), nor a one-off
//    event;
//  - no claim goes on for longer than its attempts may take and that;
//  - no occurrence of an enabled schedule is left without a row, launch record or outcome.
// Rows that wait for a token are looked at by check_idle, launch records wait for the run before.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_OVERDUE_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_OVERDUE_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: of this history.
std::vector<Violation> CheckOverdue(const History& history, const Expectations& expected);
std::vector<Violation> CheckOverdue(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_OVERDUE_H_
