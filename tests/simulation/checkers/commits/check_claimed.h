// Claim before send: before an attempt is sent, a durable commit has claimed its event and counts
// one attempt fewer. A process sends an attempt only once for each claim, unless it has acquired
// the shard again in between. A process that acquires a shard adopts the claims of its former
// owner.
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
