// The simulation's checkers, as far as real processes can be judged by them.
//
// Left out: check_idle, which judges a second of idleness (a machine that is short of time is idle
// for longer), check_acknowledged, for which services would have to write down what they are told
// (tests/conformance:kv_kill_test looks at that), and of check_requests users' answers.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_JUDGE_CHAOS_H_
#define TESTS_E2E_CHAOS_JUDGE_CHAOS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::chaos {

std::vector<simulation::Violation> JudgeChaos(const simulation::History& history);

// How often an event arrived again, by the cause that explains it.
std::map<std::string, uint64_t> CountRepeats(const simulation::History& history);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_JUDGE_CHAOS_H_
