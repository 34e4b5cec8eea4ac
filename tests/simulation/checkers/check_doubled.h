// Duplicates happen only where they cannot be avoided. One of these must explain each further
// receipt of an event:
// - a retry: the sender learnt that the earlier attempt failed, or got no answer in time;
// - a takeover: the lease of the event's queue shard was acquired since the earlier receipt was
//   claimed. The end was not committed, or the attempt was sent after the lease was lost. For an
//   event with a token the lease of any queue shard counts;
// - for throttled events: the consumer reported failed work, or the hold time ran out.
// A run without faults has retries only.
//
// Identity: one id is one event, with one body for each version of its definition; and one event
// has one id.
//
// Pure.

#ifndef TESTS_SIMULATION_CHECKERS_CHECK_DOUBLED_H_
#define TESTS_SIMULATION_CHECKERS_CHECK_DOUBLED_H_

#include <vector>

#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// Why an event that had been received before arrived again.
enum class RepeatCause {
  kFailed,      // the earlier attempt had failed
  kNoAnswer,    // the earlier attempt had no answer in time
  kWorkFailed,  // the consumer reported that its work had failed
  kHoldExpired,
  // W1: the earlier attempt was sent, but its end was not committed when a new owner took the
  // shard.
  kEndNotCommitted,
  kLeaseLost,   // W2: an attempt arrived after its sender's lease was lost
  kEndUnknown,  // W3: a commit of the claim's ends was sent; its result is unknown
};

struct Repeat {
  size_t receipt = 0;  // index of the later receipt in History::receipts
  RepeatCause cause = RepeatCause::kFailed;
};

std::vector<Violation> CheckDoubled(const History& history);

// All repeats that are explained.
std::vector<Repeat> ExplainRepeats(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_CHECKERS_CHECK_DOUBLED_H_
