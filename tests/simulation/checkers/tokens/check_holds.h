// Hold times, in commit order and by the store's time:
//  - who loses a token because its hold time is over (RECLAIM) had it for that long since a handler
//    said that it was accepted, and until the time that the grant has on record; under HOLD none
//    loses it that way;
//  - who loses a token because no handler said a word had been waited for: until send_before, the
//    attempt's timeout and 30 s were over;
//  - once faults are over, whoever's time has come in one of these ways loses the token within some
//    seconds.
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
