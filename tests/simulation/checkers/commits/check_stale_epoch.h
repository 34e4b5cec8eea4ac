// One writer for each epoch, judged from the store's own log, in commit order:
// - a lease's epoch never decreases, and grows by one with each new owner. A new owner begins only
//   after the lease was released or has run out, by the store's time;
// - no commit applies under an epoch that is not the current one;
// - writes that only the owner of a lease may make are under its fence, and claims have the current
//   epoch in their key;
// - checkpoints never go back, and an event that has ended does not end again.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_STALE_EPOCH_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_STALE_EPOCH_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckStaleEpoch(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_STALE_EPOCH_H_
