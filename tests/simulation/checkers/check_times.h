// Each outcome of an occurrence has its reason:
// - misfire: it was recorded later than the threshold after the occurrence's time, and the policy
//   did not fire it;
// - paused: it fell due in a pause that ended, and the policy did not fire it;
// - deleted: its schedule was deleted;
// - superseded: its schedule was changed to a definition without this occurrence.
// A skipped occurrence does not end in another way, unless a backfill takes the record back. A
// launch time is never before the nominal time, nor after it by more than the jitter. If emitters'
// downtimes are the only fault, nothing is fired late against its policy.
//
// check_lost judges whether each occurrence has exactly one outcome, and what summaries count.
// check_overlap judges overlaps.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_TIMES_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_TIMES_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: computed from this history.
std::vector<Violation> CheckTimes(const History& history, const Expectations& expected);
std::vector<Violation> CheckTimes(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_TIMES_H_
