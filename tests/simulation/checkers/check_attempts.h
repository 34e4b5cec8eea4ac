// What became of an event that goes out without a token is what its consumer has said of it:
//  - it ended as succeeded only after an attempt that its sender was told was accepted;
//  - it ended as failed only when it was refused, its attempts were used up, or it was not to be
//    tried again past its schedule's next occurrence;
//  - no next attempt is made before the consumer, who asked for it, was left alone for so long;
//  - the next owner of a shard does not send again what the one before it has sent within that
//    attempt's timeout, unless its answer was there by then.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_ATTEMPTS_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_ATTEMPTS_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckAttempts(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_ATTEMPTS_H_
