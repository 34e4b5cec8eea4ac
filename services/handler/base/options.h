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

  // Rows and bytes in memory of one lane of one shard, and as much again for the lane's overdue
  // part. Further rows are read when there is room again. Payloads of one-off events count.
  size_t lane_rows_max = 4096;
  size_t lane_bytes_max = 4 << 20;

  // Events that one handler has claimed and that are not answered. While claims are made earlier
  // (kClaimLeadMax), there may be up to twice as many.
  uint64_t events_out_max = 16'384;
  // The same for one target. The target's own bound follows the number of its answers, from 256 up
  // to this, and higher while claims are made earlier. A slow target (kSlowTargetAfter) gets 1/16
  // of its bound, so that many slow targets leave room for the others.
  uint64_t target_events_out_max = 4096;
  // Rows of one target that wait for room, for each shard. On-time rows are counted apart from rows
  // that are overdue or catch up.
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

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_BASE_OPTIONS_H_
