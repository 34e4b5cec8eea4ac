// What counts as delivered was: each event that ended as succeeded arrived at the consumer, in an
// attempt that it accepted, or of which it cannot tell what the sender learnt.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_CHECK_DELIVERED_H_
#define TESTS_E2E_CHAOS_CHECK_DELIVERED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::chaos {

std::vector<simulation::Violation> CheckDelivered(const simulation::History& history);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_CHECK_DELIVERED_H_
