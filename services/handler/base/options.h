// The options of a handler: the values that a process or a test can set. The fixed bounds are in
// limits.h.

#ifndef SERVICES_HANDLER_BASE_OPTIONS_H_
#define SERVICES_HANDLER_BASE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/secrets/sealed_value.h"

namespace escapement::handler {

struct HandlerOptions {
  std::string instance = "handler";              // unique for each start of a process
  std::vector<std::string> dead_instances = {};  // see LeaseKeeper::Options
  Metrics* metrics = nullptr;  // outlives the service; null: the service keeps its own

  // The key of tokens, used if the store has none yet (common/tokens). Empty: the service draws one
  // from the runtime's random numbers, which is good enough only in simulations.
  std::string fresh_token_key;

  // Opens the secrets of targets. Null: targets with secrets fail.
  std::shared_ptr<const Sealer> sealer;

  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);

  // Rows and bytes in memory of one lane of one shard, and as much again for the lane's late
  // part. Further rows are read when there is room again. Payloads of one-off events count.
  size_t lane_rows_max = 4096;
  size_t lane_bytes_max = 4 << 20;

  // Events that one handler has claimed and that are not answered. While claims are made earlier
  // (kClaimLeadMax), there may be up to twice as many.
  uint64_t events_out_max = 16'384;
  // The same for one target. The target's own bound follows the number of its answers, from 256 up
  // to this, and higher while claims are made earlier. A slow target (kSlowTargetAfter) gets 1/16
  // of its bound, or twice what its good results need while slow targets have less than half of
  // events_out_max, so that many slow targets leave room for the others.
  uint64_t target_events_out_max = 4096;
  // The same for a target that has answered nothing yet; each answer allows one more
  // (target_health/target_pace.h). If it asks for a pause, it has got no more events than this.
  uint64_t first_out_max = 4;
  // Rows of one target and segment (shard/due_queue.h) that wait for room, for each shard.
  size_t blocked_rows_max = 1024;
  // Bytes of rows each shard may keep in memory while their target has no room. Above this, rows of
  // slow targets are evicted first, then rows of the targets with most waiting bytes; they are
  // re-read later.
  size_t blocked_bytes_max = 16 << 20;

  // A drain waits this long for open sends. Sends that are still open then are left to the next
  // owner.
  absl::Duration drain_max = absl::Seconds(12);

  absl::Duration retention =
      absl::Hours(24 * 7);  // how long outcomes are kept, counted from their end
  // Days older than the retention that one shard keeps because outcomes ended later on them
  // (backfills). Above this, later days wait until one of these days is deleted.
  size_t kept_days_max = 4096;
};

// Bounds of the handler, each with its effect. HandlerOptions has the values that a process or a
// test can set.

// Rows that are due within this time are loaded ahead.
inline constexpr absl::Duration kHorizon = absl::Seconds(10);
// A lane in which no row is due within kHorizon is read this far ahead, once in a quarter of this
// time. The watch reports rows that are stored there later.
inline constexpr absl::Duration kQuietHorizon = absl::Minutes(4);
// A row in an on-time lane can become late when it has been due for this long. While
// on-time rows are due, late and background rows get at most half of the claims (due_queue.h).
inline constexpr absl::Duration kLateAfter = absl::Milliseconds(500);

// Rows are claimed at least kClaimLead ahead of their due time, so that a commit may take this long
// without making events late. If recent commits were slower, the lead grows up to kClaimLeadMax
// (send_loop.h).
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

// A group of events is troubled once its results were bad for this long, and at least so many
// (send_loop.h).
inline constexpr absl::Duration kTroubledFor = absl::Seconds(1);
inline constexpr uint32_t kTroubledAfter = 4;

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

#endif  // SERVICES_HANDLER_BASE_OPTIONS_H_
