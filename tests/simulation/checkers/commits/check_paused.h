// Pause, delete and update, in commit order:
//  - nothing of a schedule is claimed while its state in force is paused or deleted;
//  - what is claimed is to be sent by the version that is in force;
//  - once a pause or delete has been in force for as long as an attempt may take, nothing is sent,
//    until it is resumed. (What had been claimed before is drained in that time.)
// The first two are exact: no time is compared.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_PAUSED_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_PAUSED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckPaused(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_PAUSED_H_
