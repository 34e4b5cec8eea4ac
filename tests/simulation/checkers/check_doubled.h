// Duplicates only where they cannot be avoided: each further receipt of an event is explained by
// one of
//  - a retry: the sender was told that the receipt before it failed, or was told nothing in time;
//  - a takeover: the lease of the event's queue shard was acquired anew since the earlier receipt
//    was claimed (its end was not committed, or was sent after the lease was lost); of an event
//    that held a token, of any queue shard;
//  - of throttled events: the consumer said that the work had failed, or its hold time ran out.
// A fault-free run has retries only. And identity: one id is one event with one body for each
// version of its definition, and one event has one id.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_DOUBLED_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_DOUBLED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Why a receipt of an event that had been received before was to be expected.
enum class RepeatCause {
  kFailed,      // the attempt before had failed
  kNoAnswer,    // nobody had answered the attempt before in time
  kWorkFailed,  // the consumer said that its work had failed
  kHoldExpired,
  kEndNotCommitted,  // W1: the attempt before was sent, and its end not committed when a new owner
                     // took the shard
  kLeaseLost,        // W2: one of the two arrived when its sender's lease had gone: after the check
  kEndUnknown,       // W3: a commit of the claim's ends was sent, and what became of it not told
};

struct Repeat {
  size_t receipt = 0;  // in History::receipts: the later one
  RepeatCause cause = RepeatCause::kFailed;
};

std::vector<Violation> CheckDoubled(const History& history);

// Of all repeats that are explained.
std::vector<Repeat> ExplainRepeats(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_DOUBLED_H_
