// Claim before send: when an attempt is sent, a durable commit has claimed its event, with one
// attempt fewer begun before; and nobody sends it twice for one claim, unless it has acquired the
// shard anew in between: whoever acquires a shard adopts what its former owner has left.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CLAIMED_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CLAIMED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckClaimed(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CLAIMED_H_
