// An event that ended as succeeded was really delivered: it arrived at the consumer in an attempt
// that the consumer accepted, or in one whose answer the sender may have seen differently.
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
