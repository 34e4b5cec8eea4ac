// Emitters find every trigger: in commit order, the LaunchExpression that a child stands under is
// in use, in the commit that puts the child and until the child is gone.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHILDREN_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHILDREN_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckChildren(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHILDREN_H_
