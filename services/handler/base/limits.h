// Bounds of the handler, each with its effect. HandlerOptions has the values that a process or a
// test can set.

#ifndef SERVICES_HANDLER_BASE_LIMITS_H_
#define SERVICES_HANDLER_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace escapement::handler {

// Rows that are due within this time are loaded ahead.
inline constexpr absl::Duration kHorizon = absl::Seconds(10);
// A lane in which no row is due within kHorizon is read this far ahead, once in a quarter of this
// time. The watch reports rows that are stored there later.
inline constexpr absl::Duration kQuietHorizon = absl::Minutes(4);
// A row in an on-time lane can become overdue when it has been due for this long. Rows that are due
// later then go first (due_queue.h).
inline constexpr absl::Duration kOverdueAfter = absl::Milliseconds(500);

// Rows are claimed at least kClaimLead ahead of their due time, so that a commit may take this long
// without making events late. If recent commits were slower, the lead grows up to kClaimLeadMax
// (claim_lead.h).
inline constexpr absl::Duration kClaimLead = absl::Milliseconds(20);
inline constexpr absl::Duration kClaimLeadMax = absl::Milliseconds(250);
// All rows of all shards that fall due in one tick are claimed together: a commit and its sync cost
// the same for one row and for many.
inline constexpr absl::Duration kClaimTick = absl::Milliseconds(20);
// Rows of one commit of claims or of ends. Bounds the size of the commit.
inline constexpr size_t kClaimRowsMax = 1000;
// Events of one commit of claims. Bounds the events that are sent again after a crash.
inline constexpr uint64_t kClaimEventsMax = 4096;
// Commits of claims under way for each shard.
inline constexpr size_t kClaimsOutstandingMax = 4;

// A target that has had no room for longer than this is slow. Its rows are evicted, and re-read
// when it has room.
inline constexpr absl::Duration kSlowTargetAfter = absl::Seconds(1);

// Ends are committed as soon as there are this many.
inline constexpr size_t kEndOutcomesFlush = 1000;
// Ends of one commit, and bytes of payloads in its retry rows and dead letters.
inline constexpr size_t kEndOutcomesMax = 4000;
inline constexpr size_t kEndBytesMax = 8 << 20;
// Fewer ends are committed at the next whole multiple of this time, by all shards at once, so that
// their commits share one sync.
inline constexpr absl::Duration kEndFlushDelay = absl::Milliseconds(10);
// The same for ends that free a token.
inline constexpr absl::Duration kFreeingFlushDelay = absl::Milliseconds(5);
// The same for deliveries whose token stays out. No consumer waits for these, so their commits must
// not delay commits that free tokens.
inline constexpr absl::Duration kDeliveredFlushDelay = absl::Milliseconds(20);

// An event is a suspect once this many handlers in a row were lost while they had claimed it
// (claims/suspect_loop.h).
inline constexpr uint32_t kLostClaimsOfSuspect = 2;

// Pause after the store had no room for a commit.
inline constexpr absl::Duration kRetryCommitDelay = absl::Milliseconds(100);

// Pause between two sweeps of records that are older than the retention.
inline constexpr absl::Duration kSweepEvery = absl::Minutes(1);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_BASE_LIMITS_H_
