// Done is final, in commit order: what has an outcome is not claimed any more, has no row put and
// has no other outcome. So of runs and of one-off events; of a run that was skipped as a whole, of
// all its events. Only a backfill takes a record back, and is on record with that: in the same
// commit the record goes.
//
// A summary of skipped occurrences may be counted up; the runs that it counts but is not kept under
// are looked at by check_lost.
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
