// Runs of one schedule overlap only as its policy allows, in commit order. Active is a run by its
// mark, and as long as events of it have not ended:
//  - under SKIP and BUFFER_ONE no run is launched while another is active (those that were set off
//    by a trigger or backfill are, but are not launched that way);
//  - an occurrence is skipped (overlap) only while a run is active, or if a later one had taken its
//    place;
//  - events end as cancelled (overlap) only of runs that a later launch under CANCEL_PREVIOUS has
//    taken the place of; where nothing but downtimes happen, nothing more of them is sent.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_OVERLAP_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_OVERLAP_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckOverlap(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_OVERLAP_H_
