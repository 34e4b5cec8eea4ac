// What of a handler can be set, with what each bound causes.

#ifndef SERVICES_HANDLER_OPTIONS_H_
#define SERVICES_HANDLER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace escapement::handler {

struct HandlerOptions {
  std::string instance = "handler";  // unique for each start of a process
  Metrics* metrics = nullptr;        // outlives the service; null: the service keeps its own

  // The platform's key of tokens, if there is none yet (common/tokens). Empty: drawn from the
  // runtime's random numbers, which only in simulations are good enough.
  std::string fresh_token_key;

  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);

  // Rows due within it are loaded ahead.
  absl::Duration horizon = absl::Seconds(10);
  // A lane in which nothing is due within `horizon` is looked at so far ahead: once in a quarter of
  // it. What is stored there later is told by the watch.
  absl::Duration quiet_horizon = absl::Minutes(4);
  // Bounds of one lane of one shard in memory, and as much again of its overdue part; what is
  // beyond them is read when there is room again. A payload of a one-off event counts.
  size_t lane_rows_max = 4096;
  size_t lane_bytes_max = 4 << 20;
  // What has been due for so long in an on-time lane, while half of what may be in memory of it is,
  // or more wait for its target than may (blocked_rows_max), or there is more of it in the store
  // than has been read, is overdue: what is due later has the right of way (due_queue.h).
  absl::Duration overdue_after = absl::Milliseconds(500);

  // Rows are claimed at least claim_lead ahead of their due time: the time that a commit may take
  // without making events late. Where commits were slower of late it is longer, up to
  // claim_lead_max (claim_lead.h). They are claimed at whole claim_ticks, all that fall due in one
  // tick together, in all shards: a commit and its sync cost the same for one row and for many.
  absl::Duration claim_lead = absl::Milliseconds(20);
  absl::Duration claim_lead_max = absl::Milliseconds(250);
  absl::Duration claim_tick = absl::Milliseconds(20);
  size_t claim_rows_max = 1000;       // of one commit; bounds its size
  uint64_t claim_events_max = 4096;   // of one commit; bounds what is sent again after a crash
  size_t claims_outstanding_max = 4;  // commits under way for each shard

  // Claimed and not answered. Together they bound what one handler has out, with claim_lead_max
  // up to twice as many. A target's bound follows what it answers, from 256 up to this, and beyond
  // it by what it answers in the time by which claims are made earlier than claim_lead; one that
  // has been without room for `slow_target_after` gets 1/16 of it, so that many slow ones leave
  // room for the others.
  uint64_t events_out_max = 16'384;
  uint64_t target_events_out_max = 4096;
  // A target that was without room for longer is slow: its rows are let go of and read again when
  // it has room.
  absl::Duration slow_target_after = absl::Seconds(1);
  // Of one target, for each shard: of what is on time, and of what is overdue or catches up.
  size_t blocked_rows_max = 1024;
  // Of all that wait for their targets, for each shard: beyond, those of slow targets are let go
  // of, and of those of whom most waits.
  size_t blocked_bytes_max = 16 << 20;

  // Ends are committed when there are so many or the oldest is so old.
  size_t end_outcomes_flush = 1000;
  size_t end_outcomes_max = 4000;  // of one commit
  size_t end_bytes_max = 8 << 20;  // of payloads in retry rows and dead letters of one commit
  // The oldest is too old at the next whole multiple of these, for all shards at once: their
  // commits then share one sync. Of those that free a token, sooner.
  absl::Duration end_flush_delay = absl::Milliseconds(10);
  absl::Duration freeing_flush_delay = absl::Milliseconds(5);
  // Of deliveries whose token stays out nobody waits for the news: their commits are not to stand
  // in the way of those that free tokens.
  absl::Duration delivered_flush_delay = absl::Milliseconds(20);

  absl::Duration retry_commit_delay = absl::Milliseconds(100);  // after "no room" from the store
  absl::Duration drain_max = absl::Seconds(12);  // sends still open then are left to the next owner

  absl::Duration retention = absl::Hours(24 * 7);  // of outcomes, from when they ended
  // Days older than the retention that are kept for what ended later on them (backfills), of one
  // shard; beyond it the later days wait until one of them goes.
  size_t kept_days_max = 4096;
  absl::Duration sweep_every = absl::Minutes(1);
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_OPTIONS_H_
