// Same request_id, same answer, one effect:
// - a request's answer is recorded once, in the commit that has the effect;
// - every OK answer that a user got under a request_id has such a record, and all of them are the
//   same, whichever master gave them.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_REQUESTS_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_REQUESTS_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckRequests(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_REQUESTS_H_
