// ClaimLead: how long before their due time rows are claimed.
//
// All rows that fall due in one tick are claimed together, in all shards at the same instant, so
// that their commits share one sync. The lead is 1.25 times the slowest claim commit of the last
// five to ten minutes, within bounds: a disk that was slow once will be slow again, and events that
// are claimed early enough are still sent in time.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SENDING_CLAIM_LEAD_H_
#define SERVICES_HANDLER_SENDING_CLAIM_LEAD_H_

#include <algorithm>

#include "absl/time/time.h"
#include "services/handler/base/options.h"

namespace escapement::handler {

class ClaimLead {
 public:
  // Notes that the commit of a claim took this long.
  void OnCommitted(absl::Duration took) { slowest_ = std::max(slowest_, took); }

  // Moves the lead towards its target, by at most half a tick per tick, so that a tick claims at
  // most one and a half times its usual rows. `now` is store time, `elapsed` is Clock::Elapsed.
  void Step(absl::Time now, absl::Duration elapsed);

  // Rows that are due at this time or earlier are claimed at `now`.
  absl::Time LatestDueClaimedAt(absl::Time now) const;
  // When a row that is due at `due` is claimed with the present lead: the lead before `due`, or up
  // to one kClaimTick earlier.
  absl::Time ClaimTimeOf(absl::Time due) const;

  // The part of the lead beyond kClaimLead.
  absl::Duration extra() const { return lead_ - kClaimLead; }
  // extra() as a share of kClaimLeadMax.
  double extra_share() const { return extra_share_; }

 private:
  absl::Duration lead_ = kClaimLead;
  double extra_share_ = 0;
  absl::Time stepped_ = absl::InfinitePast();  // the last tick of Step
  // The slowest commit of this period and of the period before it.
  absl::Duration slowest_ = absl::ZeroDuration();
  absl::Duration slowest_before_ = absl::ZeroDuration();
  absl::Duration period_ = absl::ZeroDuration();  // when this period began, Clock::Elapsed
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SENDING_CLAIM_LEAD_H_
