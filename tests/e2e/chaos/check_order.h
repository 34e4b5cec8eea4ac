// CheckOrder: judges what a consumer saw of the events of keys that go out one at a time: each
// policy_key may have one event out, and an event that failed keeps its token (KEEP_TOKEN).
//
// Pure.

#ifndef TESTS_E2E_CHAOS_CHECK_ORDER_H_
#define TESTS_E2E_CHAOS_CHECK_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

// Something that happened to an event at the consumer. The consumer notes an answer before it sends
// it, so what follows from the answer is noted later.
struct OrderNote {
  enum class Kind : uint8_t {
    kArrived,
    kAccepted,
    kRefused,
  };
  Kind kind = Kind::kArrived;
  absl::Time time;
  size_t key = 0;
  size_t index = 0;  // 0, 1, 2 … in the order of the due times within the key
};

// A process was killed at `begin`, or just after it, and was ready again at `end`.
struct OrderFault {
  absl::Time begin, end;
};

struct OrderVerdict {
  // Their rules:
  //   order     an event arrived before all earlier events of its key were accepted, or after a
  //   later
  //             one had arrived
  //   together  an event arrived while another event of its key was out. No fault excuses this,
  //             because the events end with the consumer's answer (ON_DELIVERY)
  //   repeat    an event arrived that was out or accepted, and no fault began or lasted between its
  //             last arrival before that and this one. So without faults nothing is repeated
  //   lost      an event was never accepted
  // At most 100.
  std::vector<simulation::Violation> violations;
  uint64_t arrivals = 0;
  uint64_t accepted = 0;  // distinct events
  uint64_t refused = 0;   // answers
  uint64_t repeats = 0;   // arrivals of events that were out or accepted
  uint64_t out_max = 0;   // events of different keys that were out at once
};

// `notes` in the order in which they were taken. Each of `keys` keys has `events_of_key` events. An
// attempt that is out is answered at most once.
OrderVerdict CheckOrder(const std::vector<OrderNote>& notes, const std::vector<OrderFault>& faults,
                        size_t keys, size_t events_of_key);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_CHECK_ORDER_H_
