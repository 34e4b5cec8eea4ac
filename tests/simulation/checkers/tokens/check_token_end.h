// Each grant ends once, in commit order:
// - An event that gets a token waited for it and waits no more. The same commit claims it. It has
//   no other token and no outcome.
// - A claimed event holds the token that its claim names.
// - The commit that takes a token writes either the event's outcome or a row by which it waits, and
//   not both.
// - No event has two outcomes, and none waits or is granted after its outcome.
// - The name of a grant is never used again.
// - Whenever a policy's count of holders is written, it is right.
// - If a consumer's result was confirmed as taking effect, the event ended with it.
//
// If a schedule is changed away from an occurrence and back before it is due, the occurrence may
// wait in two rows.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_TOKEN_END_H_
#define TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_TOKEN_END_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckTokenEnd(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_TOKENS_CHECK_TOKEN_END_H_
