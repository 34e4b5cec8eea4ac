// TokenManagerOptions: the values that a process or a test can set. Below it the fixed bounds, each
// with its effect.

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

// A grant with no report this long after its last possible answer counts as silent: its handler is
// gone, and so is the one that took over. The token is taken back.
inline constexpr absl::Duration kUndeliveredSlack = absl::Seconds(30);

// A grant is made this long before the due time, so that a commit may take this long. The handler
// waits for the due time.
inline constexpr absl::Duration kGrantLead = absl::Milliseconds(10);

// Rows with grants in one commit.
inline constexpr size_t kGrantRowsMax = 1024;

// A report that frees nothing (events have arrived and keep their token) is written with the next
// commit, and no later than this. A commit of its own would delay one that frees tokens.
inline constexpr absl::Duration kNewsDelay = absl::Milliseconds(20);

// Completions of Apply that wait. Further callers get no room, and store a report instead.
inline constexpr size_t kCompletionsMax = 16'384;

// Pause after the store had no room for a commit.
inline constexpr absl::Duration kRetryCommitDelay = absl::Milliseconds(100);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_BASE_OPTIONS_H_
