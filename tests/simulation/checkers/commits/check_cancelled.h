// CancelRun, in commit order:
// - only runs that a user asked to cancel are cancelled, and only their events end for that reason;
// - after a run is cancelled, no event of it is claimed (exact: no time is compared). After an
//   attempt's longest time, no event of it is sent;
// - if the user's answer was that the run is cancelled, it is, or it has ended as cancelled for
//   another reason.
// check_lost judges that all its events end.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CANCELLED_H_
#define TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CANCELLED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckCancelled(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_COMMITS_CHECK_CANCELLED_H_
