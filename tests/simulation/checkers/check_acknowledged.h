// Every commit that was answered as durable is durable. Judged by the store's own log of durable
// commits:
// - commit sequences are dense and in order, and no commit becomes durable twice;
// - if an answer says that a group applied, the log has that commit under that sequence with those
//   verdicts, and had it when the answer came;
// - a commit that began after another one had been answered has a later sequence.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_ACKNOWLEDGED_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_ACKNOWLEDGED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckAcknowledged(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_ACKNOWLEDGED_H_
