// The handler's metrics.
//
// Threads: any.

#ifndef SERVICES_HANDLER_BASE_METRICS_H_
#define SERVICES_HANDLER_BASE_METRICS_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "common/metrics/metrics.h"

namespace escapement::handler {

// The endpoints of one transport, and the attempts at them.
struct TransportMetrics {
  Gauge& open;                 // endpoints whose circuit breaker is open
  Gauge& half_open;            // endpoints that wait for the result of a probe
  Gauge& closed;               // the other endpoints that were used in the last minutes
  Counter& openings;           // how often a circuit breaker has opened
  Counter& failures;           // attempts that were sent and not accepted
  Histogram& attempt_seconds;  // from the transport to the result
};

struct HandlerMetrics {
  explicit HandlerMetrics(Metrics& metrics);

  Counter& deliveries;  // attempts that left, once they have ended
  Counter& accepted;    // attempts that the consumer accepted
  Counter& succeeded;   // events whose end is durable: its Done or, if granted, its report
  Counter& retries;
  Counter& dead_letters;
  Counter& skipped;
  Counter& parked;
  Counter& claims;
  Counter& claims_failed;
  Counter& rows_loaded;
  Counter& takeovers;     // events of a former owner that were sent again or reported as its
  Counter& suspects;      // events that were set apart to be sent alone
  Counter& quarantined;   // events that became dead letters because three claims had no result
  Counter& broken_rows;   // rows that could not be read: our bug or damage, to be looked into
  Counter& refused_ends;  // ends that the store refused for good: lease lost, or our bug
  Gauge& rows_in_memory;
  Gauge& events_out;
  Gauge& shards_held;
  Histogram& lateness_seconds;  // from the due time to the transport, of first attempts
  // How late the oldest row is that is due and not claimed, of the shards held. Rows that wait for
  // their target, retries and rows that were read late do not count.
  Gauge& oldest_overdue_seconds;
  Counter& heartbeats;  // accepted events of the platform's own schedule
  Histogram& heartbeat_lateness_seconds;
  Counter& held_events_failed;  // events that grew too old while their target took none
  Counter& target_pauses;       // pauses that targets asked for, as they began

  // The metrics of the target's transport. The key (common/records/row_judge.h) begins with its
  // name; an unknown one counts as "other".
  TransportMetrics& Of(absl::string_view target_key);
  std::map<std::string, TransportMetrics, std::less<>> by_transport;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_BASE_METRICS_H_
