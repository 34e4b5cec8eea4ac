// The options of a token manager: the values that a process or a test can set. The fixed bounds are
// in limits.h.

#ifndef SERVICES_TOKEN_MANAGER_BASE_OPTIONS_H_
#define SERVICES_TOKEN_MANAGER_BASE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace escapement::token_manager {

struct TokenManagerOptions {
  std::string instance = "token_manager";        // unique for each start of a process
  std::vector<std::string> dead_instances = {};  // see LeaseKeeper::Options
  Metrics* metrics = nullptr;  // outlives the service; null: the service keeps its own

  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);

  // A handler gives back events that it has not sent this long after their grant.
  absl::Duration send_within = absl::Seconds(10);

  // Rows in memory of one group (policy, priority, schedule). Further rows are read as these go.
  size_t group_rows_max = 256;
  uint64_t grant_events_max = 4096;  // granted events of one commit
  // Events that are granted and not known to be delivered, for each queue shard. Bounds the events
  // that a slow or dead handler keeps from others.
  uint64_t undelivered_max = 1000;
  size_t report_entries_max = 4096;  // entries of reports handled in one commit
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_BASE_OPTIONS_H_
