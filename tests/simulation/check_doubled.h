// Duplicates only where they cannot be avoided: each further receipt of an event is explained by
// one of
//  - a retry: the sender was told that the receipt before it failed, or was told nothing in time;
//  - a takeover: the lease of the event's queue shard was acquired anew since the earlier receipt
//    was claimed (its end was not committed, or was sent after the lease was lost); of an event
//    that held a token, of any queue shard;
//  - of throttled events: the consumer said that the work had failed, or its hold time ran out.
// A fault-free run has retries only. And identity: one id is one event with one body for each
// version of its definition, and one event has one id.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECK_DOUBLED_H_
#define TESTS_SIMULATION_CHECK_DOUBLED_H_

#include <vector>

#include "tests/simulation/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckDoubled(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECK_DOUBLED_H_
