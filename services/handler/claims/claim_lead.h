// ClaimLead: when rows are claimed. All that fall due in one tick together, in all shards at the
// same instant, so that their commits share one sync, and early enough that none is late for its
// commit: as early as the slowest commit of a claim of the last five to ten minutes took, and a
// quarter more. A disk that is slow once is slow again, and what is claimed by then is sent in
// time.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_CLAIM_LEAD_H_
#define SERVICES_HANDLER_CLAIMS_CLAIM_LEAD_H_

#include <algorithm>

#include "absl/time/time.h"
#include "services/handler/options.h"

namespace escapement::handler {

class ClaimLead {
 public:
  // `options` outlive it.
  explicit ClaimLead(const HandlerOptions& options)
      : options_(options), lead_(options.claim_lead) {}

  // A claim was committed `took` after that was asked for.
  void OnCommitted(absl::Duration took) { slowest_ = std::max(slowest_, took); }

  // Moves the lead towards what it is to be, by at most half a tick in a tick, so that no more than
  // one and a half times what falls due is claimed. `now` is of the store, `elapsed`
  // Clock::Elapsed.
  void Step(absl::Time now, absl::Duration elapsed);

  // Rows due by then are claimed at `now`.
  absl::Time Until(absl::Time now) const;
  // The first time at which a row due at `due` is claimed, as the lead is: lead to lead +
  // claim_tick before it.
  absl::Time TimeOf(absl::Time due) const;

  // Beyond options.claim_lead.
  absl::Duration extra() const { return lead_ - options_.claim_lead; }
  // Of options.claim_lead_max.
  double extra_share() const { return extra_share_; }

 private:
  const HandlerOptions& options_;
  absl::Duration lead_;
  double extra_share_ = 0;
  absl::Time stepped_ = absl::InfinitePast();  // a whole tick
  // The slowest of this period and of the one before it.
  absl::Duration slowest_ = absl::ZeroDuration();
  absl::Duration slowest_before_ = absl::ZeroDuration();
  absl::Duration period_ = absl::ZeroDuration();  // when it began, Clock::Elapsed
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_CLAIM_LEAD_H_
