// `emitted_to` = t means that all before t has been emitted or skipped, in commit order:
//  - when a checkpoint moves on, each occurrence of an enabled schedule of its partition that lies
//    before it, by the naive expander, has a row, a launch record, an outcome, or is within a
//    summary; and so it is for a schedule that is made, changed or resumed, in the commit that does
//    so, as far as the checkpoint had come by then;
//  - nobody who owns the partition emits or skips an occurrence for the first time that lies before
//    the checkpoint as it was in force.
// (That checkpoints never go back: check_stale_epoch.)
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHECKPOINT_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHECKPOINT_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: of this history.
std::vector<Violation> CheckCheckpoint(const History& history, const Expectations& expected);
std::vector<Violation> CheckCheckpoint(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHECKPOINT_H_
