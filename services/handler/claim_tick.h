// When rows are claimed: all that fall due in one tick together, in all shards at the same instant,
// so that their commits share one sync, and early enough that none is late for its commit.
//
// Pure.

#ifndef SERVICES_HANDLER_CLAIM_TICK_H_
#define SERVICES_HANDLER_CLAIM_TICK_H_

#include "absl/time/time.h"
#include "services/handler/handler_options.h"

namespace escapement::handler {

// Rows due by then are claimed at `now`.
inline absl::Time ClaimUntil(const HandlerOptions& options, absl::Time now) {
  const absl::Duration since = now - absl::UnixEpoch();
  return absl::UnixEpoch() + absl::Floor(since, options.claim_tick) + options.claim_lead +
         options.claim_tick;
}

// The first time at which a row due at `due` is claimed: claim_lead to claim_lead + claim_tick
// before it.
inline absl::Time ClaimTime(const HandlerOptions& options, absl::Time due) {
  const absl::Duration since = due - absl::UnixEpoch() - options.claim_lead - options.claim_tick;
  return absl::UnixEpoch() + absl::Ceil(since, options.claim_tick);
}

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIM_TICK_H_
