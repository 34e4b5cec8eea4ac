// Done is final, in commit order: an event with an outcome is not claimed, has no row put and gets
// no other outcome. This holds for events of runs and for one-off events. If a run was skipped as a
// whole, it holds for all its events. Only a backfill takes a record back, and the commit that
// deletes the record shows it.
//
// The count of a summary may grow. check_lost judges the runs that a summary counts besides the one
// in its key.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_FINAL_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_FINAL_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckFinal(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_FINAL_H_
