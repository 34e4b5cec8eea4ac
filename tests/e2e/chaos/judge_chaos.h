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

#include "tests/e2e/chaos/attempt_port.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

std::vector<simulation::Violation> JudgeChaos(const simulation::History& history);

// How many events arrived again, by the cause that explains it.
std::map<std::string, uint64_t> CountRepeats(const simulation::History& history);

// An event that ended as succeeded was really delivered: it arrived at the consumer in an attempt
// that the consumer accepted, or in one whose answer the sender may have seen differently.
//
// Pure.

std::vector<simulation::Violation> CheckDelivered(const simulation::History& history);

// Adds to the history of the simulation's consumer what only the socket knows: true times, the
// schedule of each delivery, and what the sender can have learnt.
//
// If the receiving end cannot know something, it assumes the best for the sender, and no more:
// - It does not know when an attempt was sent, only that it was no later than it arrived.
// - An answer counts as read if the same connection brought another request, or stayed whole. If
//   the sender ended the connection, it may or may not have read the answer, at an unknown time.
//   Then the result counts as unknown since the arrival.
//
// Pure.

// `history` has its schedules, commits, receipts (sender "attempt N") and works. Receipts and works
// are rewritten in order of true time. Returns violations of the deliveries themselves: an id that
// belongs to no event of a schedule, or a body that the schedule never had.
std::vector<simulation::Violation> TellTrueReceipts(const std::vector<Attempt>& attempts,
                                                    const std::vector<Fate>& fates,
                                                    simulation::History* history);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_JUDGE_CHAOS_H_
