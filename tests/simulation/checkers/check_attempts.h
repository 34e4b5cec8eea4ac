// The outcome of an event without a token is what its consumer answered:
// - it ended as succeeded only if a sender learnt that an attempt was accepted;
// - it ended as failed only if it was refused, its attempts were used up, or its schedule does not
//   retry past the next occurrence, or three handlers were lost with it;
// - an event that kills its handlers is sent three times, and then ends so;
// - if a consumer asked to be left alone for a time, the next attempt is made after that time;
// - the next owner of a shard sends an event again only after the former owner's attempt has timed
//   out or was answered, or once the former owner's host has proven that owner to be dead.
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
