// The simulation's checkers, as far as they can judge real processes.
//
// These are left out:
// - check_idle, which judges a second of idleness: a busy machine may be idle for longer;
// - check_acknowledged, which needs notes of the answers that services get (see
//   tests/conformance:kv_kill_test);
// - users' answers in check_requests.
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

// How many events arrived again, by the cause that explains it.
std::map<std::string, uint64_t> CountRepeats(const simulation::History& history);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_JUDGE_CHAOS_H_
