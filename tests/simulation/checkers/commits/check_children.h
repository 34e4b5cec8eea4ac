// Emitters find every trigger. In commit order, the LaunchExpression of a child is in use from the
// commit that puts the child until the child is deleted.
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
