// Once faults are over, nothing that is due waits for more than 30 s without being claimed:
// - no row of `events` with an enabled schedule (for retries: after their backoff), and no one-off
//   event;
// - no claim stays open longer than its attempts may take plus those 30 s;
// - no occurrence of an enabled schedule is left without a row, launch record or outcome.
// check_idle judges rows that wait for a token. Launch records may wait for the run before.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_OVERDUE_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_OVERDUE_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: computed from this history.
std::vector<Violation> CheckOverdue(const History& history, const Expectations& expected);
std::vector<Violation> CheckOverdue(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_OVERDUE_H_
