// The handler's metrics.
//
// Threads: any.

#ifndef SERVICES_HANDLER_METRICS_H_
#define SERVICES_HANDLER_METRICS_H_

#include "common/metrics/metrics.h"

namespace escapement::handler {

struct HandlerMetrics {
  explicit HandlerMetrics(Metrics& metrics);

  Counter& deliveries;  // attempts handed to the transport
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
  Counter& broken_rows;   // rows that could not be read: our bug or damage, to be looked into
  Counter& refused_ends;  // ends that the store refused for good: lease lost, or our bug
  Gauge& rows_in_memory;
  Gauge& events_out;
  Gauge& shards_held;
  Histogram& lateness_seconds;  // from the due time to the transport, of first attempts
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_METRICS_H_
