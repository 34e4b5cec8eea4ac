// Policies are kept, in commit order:
// - after a commit that grants, a policy has at most max_concurrent holders, by its present limit;
// - nothing is granted under a policy that is paused or deleted, nor to a schedule that is paused
//   or deleted;
// - by the times of the grants, at most burst + t × max_per_second events are granted in any time
//   t, while the policy is unchanged. No grant has a time in the future.
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
