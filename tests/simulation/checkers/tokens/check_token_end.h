// Each grant ends once, judged in commit order:
//  - who gets a token waited for it, waits no more, is claimed in the same commit, and has neither
//    another token nor an outcome;
//  - what is claimed holds the token it is claimed by;
//  - who loses a token has, by the same commit, either an outcome or a row that waits, and not
//    both;
//  - no event has two outcomes, none waits or is granted after its outcome;
//  - the name of a grant is never used again;
//  - what a policy has on record of its holders is how many it has, whenever it is written;
//  - what a consumer was told to have taken effect is how the event ended.
// An occurrence that a change of its schedule has made a second time before it was due (away and
// back) may wait in two rows.
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
