// Pause, delete and update, in commit order:
// - no event of a schedule is claimed while its state in force is paused or deleted;
// - a claim is made for the version that is in force;
// - once a pause or delete has been in force for an attempt's timeout, no event is sent until the
//   resume. Events claimed before may be sent within that time.
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
