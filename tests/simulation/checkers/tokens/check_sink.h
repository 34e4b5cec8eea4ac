// The limit as the consumer sees it. An event is out at the consumer from its arrival until the
// consumer has answered it (ON_DELIVERY) or has given its token back (ON_RELEASE).
//  - What arrives holds a token; and whatever is out keeps it, unless it is on record why not: its
//    sender was told that the attempt had failed or was told nothing in time, the network brought
//    it later than an attempt may take, its hold time ran out, or no handler said a word on it.
//  - Of all others no more are out than max_concurrent or, since a limit was lowered, than have
//    held ever since.
//  - Nothing is sent (much) later than the grant allows.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_SINK_H_
#define TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_SINK_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckSink(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_SINK_H_
