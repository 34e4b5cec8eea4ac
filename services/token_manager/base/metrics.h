// The token manager's metrics.
//
// Threads: any.

#ifndef SERVICES_TOKEN_MANAGER_BASE_METRICS_H_
#define SERVICES_TOKEN_MANAGER_BASE_METRICS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "common/metrics/metrics.h"

namespace escapement::token_manager {

struct TokenManagerMetrics {
  explicit TokenManagerMetrics(Metrics& registry) : registry(registry) {}

  Metrics& registry;  // outlives this
  Counter& granted = Count("granted_total", "Events granted a token.");
  Counter& released = Count("released_total", "Events whose token was taken back, however.");
  Counter& delivered = Count("delivered_total", "Events reported as accepted.");
  Counter& completions = Count("completions_total", "Completions of consumers that took effect.");
  Counter& completions_void =
      Count("completions_void_total", "Completions that named a token not held any more.");
  Counter& succeeded = Count("succeeded_total", "Events whose success is durable.");
  Counter& failed = Count("failed_total", "Events that became dead letters.");
  Counter& retries = Count("retries_total", "Attempts that are made again.");
  Counter& returned = Count("returned_total", "Events given back unattempted.");
  Counter& resent = Count("resent_total", "Events claimed again for a handler that was gone.");
  Counter& expired = Count("expired_total", "Hold times that ran out.");
  Counter& undelivered =
      Count("undelivered_total", "Events taken back because nothing was ever said of them.");
  Counter& dropped = Count("dropped_total", "Events ended by the end of their window.");
  Counter& carried_over = Count("carried_over_rows_total", "Rows carried over to the next window.");
  Counter& skipped = Count("skipped_total", "Events that ended as skipped or cancelled.");
  Counter& parked = Count("parked_rows_total", "Rows parked because their schedule is paused.");
  Counter& moved = Count("moved_rows_total", "Rows moved to where they belong now.");
  Counter& commits = Count("commits_total", "Rounds committed.");
  Counter& grants_refused =
      Count("grants_refused_total", "Grants refused because a state or policy had changed.");
  // Our bug, or damage.
  Counter& broken_rows =
      Count("broken_rows_total", "Rows that cannot be read and stay where they are.");
  Counter& rows_loaded = Count("rows_loaded_total", "Rows of waiting events read.");
  Gauge& shards_held = Show("shards_held", "Policy shards held by lease.");
  Gauge& policies_active = Show("policies_active", "Policies with something waiting or held.");
  Gauge& rows_in_memory = Show("rows_in_memory", "Rows of waiting events held in memory.");
  Gauge& held = Show("tokens_held", "Tokens out now, of the shards owned.");
  Gauge& completions_waiting =
      Show("completions_waiting", "Completions that wait for the next round.");
  Gauge& undelivered_now = Show("undelivered", "Events granted and not known to be delivered.");
  Gauge& oldest_waiting_seconds =
      Show("oldest_waiting_seconds",
           "How long the oldest event has been due that waits for a token; 0 if there is none.");
  Gauge& holders_overdue =
      Show("holders_overdue", "Tokens still out although their hold time has ended.");
  Histogram& wait_seconds =
      *registry.GetHistogram("escapement_token_manager_wait_seconds",
                             "How long events had been due when they were granted.",
                             {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600, 3600});

 private:
  Counter& Count(const char* name, const char* help) {
    return *registry.GetCounter(absl::StrCat("escapement_token_manager_", name), help);
  }
  Gauge& Show(const char* name, const char* help) {
    return *registry.GetGauge(absl::StrCat("escapement_token_manager_", name), help);
  }
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_BASE_METRICS_H_
