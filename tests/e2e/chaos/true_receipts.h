// What only the socket knows of deliveries, put into the history that the simulation's consumer
// wrote: true times, whose schedule's they are, and what the sender can have learnt.
//
// Where the receiving end cannot know it says so, in the sender's favour, and never more than that:
//  - When an attempt was sent is not known: no later than it arrived.
//  - An answer counts as read if the same connection brought another request, or stayed whole. Of a
//    connection that the sender ended nobody knows whether it has read the answer, or when it gave
//    up: the result is unknown since the arrival.
//
// Pure.

#ifndef TESTS_E2E_CHAOS_TRUE_RECEIPTS_H_
#define TESTS_E2E_CHAOS_TRUE_RECEIPTS_H_

#include <vector>

#include "tests/e2e/chaos/attempt_port.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

// `history` has its schedules, commits, receipts (sender "attempt N") and works; they are told
// anew, in order of true time. What is wrong with the deliveries themselves: no id of any
// schedule's event, a body that its schedule never had.
std::vector<simulation::Violation> TellTrueReceipts(const std::vector<Attempt>& attempts,
                                                    const std::vector<Fate>& fates,
                                                    simulation::History* history);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_TRUE_RECEIPTS_H_
