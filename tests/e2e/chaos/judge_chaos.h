// The simulation's checkers, as far as real processes can be judged by them.
//
// Left out: check_idle, which judges a second of idleness: a machine that is short of time is idle
// for longer.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_JUDGE_CHAOS_H_
#define TESTS_E2E_CHAOS_JUDGE_CHAOS_H_

#include <vector>

#include "tests/simulation/history.h"

namespace escapement::chaos {

std::vector<simulation::Violation> JudgeChaos(const simulation::History& history);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_JUDGE_CHAOS_H_
