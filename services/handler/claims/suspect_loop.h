// SuspectLoop: sends the events alone that were out at two handlers in a row that were then lost.
//
// Some event may kill the process that delivers it, for example by an answer that its transport
// cannot bear. After a handler was lost, all events of its claims are sent once more, together. If
// the next handler is lost too, those that still have no result are suspects. They are sent one at
// a time for the whole handler, whatever their shard. The claim's ClaimTakeoverRecord names each
// one before it is sent. If this third handler is lost as well, the named event becomes a dead
// letter (TakeoverLoop), and the next handler goes on with the other suspects.
//
// A handler counts as lost if its lease has ended without a release, so a handler that was cut off
// from the store counts too (LeftClaim::lost_claims). Any result clears the event's count.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_SUSPECT_LOOP_H_
#define SERVICES_HANDLER_CLAIMS_SUSPECT_LOOP_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/time/time.h"
#include "services/handler/ends/end_loop.h"
#include "services/handler/sending/claim.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

// Why such an event is a dead letter. Documented in docs/operations/dead_letters.md.
inline constexpr char kQuarantined[] = "quarantined after 3 claims without a result";

class SuspectLoop {
 public:
  // `state` and `ends` must outlive it.
  SuspectLoop(QueueShardState& state, EndLoop& ends) : state_(state), ends_(ends) {}
  ~SuspectLoop();

  // Takes events [first, first + count) of the entry, in the order of the calls. The shard must
  // have the claim; no room is reserved for the events.
  void Add(std::shared_ptr<Claim> claim, uint32_t entry, uint64_t first, uint64_t count);

  void Step(absl::Time now);

  // True if events wait for their turn.
  bool blocked() const { return !waiting_.empty(); }

  // Returns the waiting events to the store, and sends no more.
  void Stop();

 private:
  struct Waiting {
    std::shared_ptr<Claim> claim;
    uint32_t entry = 0;
    uint64_t first = 0;
    uint64_t count = 0;
    const ClaimedEntry& claimed() const { return claim->entries[entry]; }
  };
  // Takes the first event of the front, which the claim's record names from then on.
  void Begin();
  void OnNamed(const std::shared_ptr<Claim>& claim);
  void Return(const Waiting& waiting);
  // Returns granted events that may not be sent any more.
  void ReturnLate(absl::Time now);
  void FreeTurn();

  QueueShardState& state_;
  EndLoop& ends_;
  std::deque<Waiting> waiting_;
  std::shared_ptr<Claim> out_;  // its `trial` is under way: this shard has the handler's turn
  absl::Duration checked_ = -absl::InfiniteDuration();     // Clock::Elapsed, of ReturnLate
  absl::Duration not_before_ = -absl::InfiniteDuration();  // Clock::Elapsed: no trial before this
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_SUSPECT_LOOP_H_
