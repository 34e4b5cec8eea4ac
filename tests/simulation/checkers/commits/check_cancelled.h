// CancelRun, in commit order:
//  - only runs that a user wanted cancelled are cancelled, and only their events end for it;
//  - once a run is cancelled, nothing of it is claimed (exact: no time is compared), and once that
//    has been so for as long as an attempt may take, nothing of it is sent;
//  - if the user was told that it is cancelled, it is, or it has ended as that for another reason.
// That all its events end, check_lost says.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CANCELLED_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CANCELLED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckCancelled(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CANCELLED_H_
