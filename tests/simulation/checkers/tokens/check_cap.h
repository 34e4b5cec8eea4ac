// Policies are kept, judged in commit order:
//  - a commit that grants leaves no more holders than max_concurrent, as the policy is then;
//  - nothing is granted under a policy that is paused or not there, nor to a schedule that is
//    paused or deleted;
//  - over any time t, counted by the times of the grants, at most burst + t × max_per_second are
//    granted (as long as a policy is not changed), and no grant bears a time that is to come.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_CAP_H_
#define TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_CAP_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckCap(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_CAP_H_
