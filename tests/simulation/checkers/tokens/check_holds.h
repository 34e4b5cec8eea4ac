// Hold times, in commit order and by the store's time:
// - An event that loses its token because its hold time is over (RECLAIM) had it for that long
//   since a handler reported it accepted, and until the time in the grant's record. Under HOLD no
//   event loses its token that way.
// - A token without any report is taken back only after send_before, the attempt's timeout and 30
//   s.
// - Once faults are over, an event whose time has come in one of these ways loses its token within
//   some seconds.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_HOLDS_H_
#define TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_HOLDS_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckHolds(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_HOLDS_H_
