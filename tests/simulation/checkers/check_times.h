// Each outcome of an occurrence has its reason:
//  - misfire: it was recorded later than the threshold after the occurrence's time, and the policy
//    did not want it fired;
//  - paused: it fell due in a pause that ended, and the policy did not want it fired;
//  - deleted, superseded: its schedule was, or was changed to something that has it not;
//  - and what has been skipped does not end otherwise, unless a backfill took the record back.
// Launch times are never before the nominal ones, and not after them by more than the jitter. Where
// nothing but downtimes happen, what the policy does not want fired late is not.
//
// (Whether each occurrence has an outcome, and one only, and what summaries count: check_lost.
// Overlap: check_overlap.)
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_TIMES_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_TIMES_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: of this history.
std::vector<Violation> CheckTimes(const History& history, const Expectations& expected);
std::vector<Violation> CheckTimes(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_TIMES_H_
