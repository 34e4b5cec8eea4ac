// What of a token manager can be set, with what each bound causes.

#ifndef SERVICES_TOKEN_MANAGER_OPTIONS_H_
#define SERVICES_TOKEN_MANAGER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"

namespace escapement::token_manager {

struct TokenManagerOptions {
  std::string instance = "token_manager";  // unique for each start of a process
  Metrics* metrics = nullptr;              // outlives the service; null: the service keeps its own

  absl::Duration lease_ttl = absl::Seconds(5);
  absl::Duration lease_renew_every = absl::Seconds(1);

  // What a handler has not sent so long after its grant it gives back.
  absl::Duration send_within = absl::Seconds(10);
  // Nothing said of a grant so long after it was to be sent and answered: its handler, and whoever
  // took over from it, has not spoken; the token is taken back.
  absl::Duration undelivered_slack = absl::Seconds(30);
  // A grant is made so much ahead of the due time: the time that a commit takes. The handler waits.
  absl::Duration grant_lead = absl::Milliseconds(10);

  // Rows in memory of one group (policy, priority, schedule); the others are read as these go.
  size_t group_rows_max = 256;
  uint64_t grant_events_max = 4096;  // of one commit
  size_t grant_rows_max = 1024;      // of one commit
  // Granted and not known to be delivered, for each queue shard: bounds what a handler that is slow
  // or gone keeps from others.
  uint64_t undelivered_max = 1000;
  size_t report_entries_max = 4096;  // acted upon in one commit
  // That events have arrived, and hold on, frees nothing: it is noted with the next commit, and no
  // later than this. A commit of its own would stand in the way of one that frees tokens.
  absl::Duration news_delay = absl::Milliseconds(20);
  size_t completions_max = 16'384;  // of Apply, waiting; beyond, callers are told to store a report

  absl::Duration retry_commit_delay = absl::Milliseconds(100);  // after "no room" from the store
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_OPTIONS_H_
