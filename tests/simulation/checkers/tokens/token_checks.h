// Policies are kept, in commit order:
// - after a commit that grants, a policy has at most max_concurrent holders, by its present limit,
//   and each key of it at most per_key.max_concurrent;
// - nothing is granted under a policy that is paused or deleted, nor to a schedule that is paused
//   or deleted;
// - by the times of the grants, at most burst + t × max_per_second events are granted in any time
//   t, while the policy is unchanged. No grant has a time in the future.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_TOKENS_TOKEN_CHECKS_H_
#define TESTS_SIMULATION_CHECKERS_TOKENS_TOKEN_CHECKS_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

std::vector<Violation> CheckCap(const History& history);

// Hold times, in commit order and by the store's time:
// - An event that loses its token because its hold time is over (RECLAIM) had it for that long
//   since a handler reported it accepted, and until the time in the grant's record. Under HOLD no
//   event loses its token that way.
// - A token without any report is taken back only after send_before, the attempt's timeout and 30
//   s.
// - Once faults are over, an event whose time has come in one of these ways loses its token within
//   some seconds.
//
// Pure.

std::vector<Violation> CheckHolds(const History& history);

// No free token beside an event that may have it. Once faults are over, no policy goes without a
// grant for more than a second while it has a free token and an event may go. The rate must allow
// it. The event must be due, in its window, and of an enabled schedule, and its target must not be
// passed over.
//
// A target is passed over for a minute after a report that it could not be reached, until a report
// that it was. Each owner of policies acts on the reports to its own grants.
//
// Pure.

std::vector<Violation> CheckIdle(const History& history);

// The limit as the consumer sees it. An event is out at the consumer from its arrival until the
// consumer has answered it (ON_DELIVERY) or has given its token back (ON_RELEASE).
// - An arriving event holds a token, and it keeps the token while it is out. There are exceptions:
//   its sender learnt that the attempt failed or got no answer in time; the network delivered it
//   after its timeout; its hold time ran out; or no handler reported on it.
// - Apart from these, at most max_concurrent events are out, and of one key at most
//   per_key.max_concurrent. After a limit was lowered, events that
//   have held tokens ever since may exceed it.
// - Nothing is sent (much) later than the grant allows.
//
// Pure.

std::vector<Violation> CheckSink(const History& history);

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

std::vector<Violation> CheckTokenEnd(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_TOKENS_TOKEN_CHECKS_H_
