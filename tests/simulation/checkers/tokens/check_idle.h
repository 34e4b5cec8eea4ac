// No free token beside an event that may have it: once faults are over, no policy lets more than a
// second pass without a grant while it has a free token (and its rate allows one) and an event
// waits that is due, in its window, of a schedule that is enabled, and whose target is not being
// passed over: that is, in a minute after a report that it could not be reached, until one that it
// was. (Each owner of policies goes by the reports on its own grants.)
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
