// The token manager's metrics.
//
// Threads: any.

#ifndef SERVICES_TOKEN_MANAGER_BASE_METRICS_H_
#define SERVICES_TOKEN_MANAGER_BASE_METRICS_H_

#include "common/metrics/metrics.h"

namespace escapement::token_manager {

struct TokenManagerMetrics {
  explicit TokenManagerMetrics(Metrics& metrics);

  Counter& granted;           // events
  Counter& released;          // events whose token was taken back, however
  Counter& delivered;         // events reported as accepted
  Counter& completions;       // completions of consumers that took effect
  Counter& completions_void;  // completions that named a token not held any more
  Counter& succeeded;         // events whose Done is durable
  Counter& failed;            // dead letters
  Counter& retries;
  Counter& returned;      // events given back unattempted
  Counter& resent;        // events claimed again for a handler that was gone
  Counter& expired;       // hold times that ran out
  Counter& undelivered;   // events taken back because no report ever came
  Counter& dropped;       // events that the end of their window ended
  Counter& carried_over;  // rows
  Counter& skipped;
  Counter& parked;  // rows
  Counter& moved;   // rows
  Counter& commits;
  Counter& grants_refused;  // groups: a state or policy had changed
  Counter& broken_rows;     // rows that could not be read: our bug or damage
  Counter& rows_loaded;
  Gauge& shards_held;
  Gauge& policies_active;  // policies with something waiting or held, which are in memory
  Gauge& rows_in_memory;
  Gauge& held;  // tokens out now, of all shards owned
  Gauge& completions_waiting;
  Gauge& undelivered_now;
  Gauge& oldest_waiting_seconds;  // age of the oldest due event without a token
  Gauge& holders_overdue;         // tokens still out although their hold time has ended
  Histogram& wait_seconds;        // from the due time to the grant
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_BASE_METRICS_H_
