// Runs of one schedule overlap only as its policy allows, in commit order. A run is active while it
// has its mark, and while events of it have not ended:
// - under SKIP and BUFFER_ONE no run is launched while another is active. Triggers and backfills
//   start runs even then, but without a launch record;
// - an occurrence is skipped (overlap) only while a run is active, or if a later run had taken its
//   place;
// - events end as cancelled (overlap) only if a later launch under CANCEL_PREVIOUS has taken the
//   place of their run. If emitters' downtimes are the only fault, no more events of that run are
//   sent.
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
