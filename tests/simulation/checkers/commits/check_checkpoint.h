// `emitted_to` = t means that everything before t has been emitted or skipped, in commit order:
// - When a checkpoint moves on, each occurrence before it of an enabled schedule of the partition
//   has a row, a launch record or an outcome, or is within a summary. The naive expander says which
//   occurrences there are.
// - The same holds for a schedule that is made, changed or resumed, in the commit that does so, up
//   to the checkpoint of that moment.
// - The owner of a partition never emits or skips an occurrence for the first time if it lies
//   before the checkpoint in force.
// check_stale_epoch judges that checkpoints never go back.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHECKPOINT_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHECKPOINT_H_

#include <vector>

#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// `expected`: computed from this history.
std::vector<Violation> CheckCheckpoint(const History& history, const Expectations& expected);
std::vector<Violation> CheckCheckpoint(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CHECKPOINT_H_
