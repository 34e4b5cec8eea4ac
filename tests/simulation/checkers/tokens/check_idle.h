// No free token beside an event that may have it. Once faults are over, no policy goes without a
// grant for more than a second while it has a free token and an event may go. The rate must allow
// it. The event must be due, in its window, and of an enabled schedule, and its target must not be
// passed over.
//
// A target is passed over for a minute after a report that it could not be reached, until a report
// that it was. Each owner of policies acts on the reports to its own grants.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_IDLE_H_
#define TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_IDLE_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckIdle(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_IDLE_H_
