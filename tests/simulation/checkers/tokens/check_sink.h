// The limit as the consumer sees it. An event is out at the consumer from its arrival until the
// consumer has answered it (ON_DELIVERY) or has given its token back (ON_RELEASE).
// - An arriving event holds a token, and it keeps the token while it is out. There are exceptions:
//   its sender learnt that the attempt failed or got no answer in time; the network delivered it
//   after its timeout; its hold time ran out; or no handler reported on it.
// - Apart from these, at most max_concurrent events are out. After a limit was lowered, events that
//   have held tokens ever since may exceed it.
// - Nothing is sent (much) later than the grant allows.
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
