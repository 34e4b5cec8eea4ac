// Counters of the master.

#ifndef SERVICES_MASTER_BASE_METRICS_H_
#define SERVICES_MASTER_BASE_METRICS_H_

#include "common/metrics/metrics.h"

namespace escapement::master {

struct MasterMetrics {
  // `metrics` outlives it.
  explicit MasterMetrics(Metrics& metrics);

  Counter& ingest_batches;  // committed
  Counter& ingest_batches_refused;
  Counter& events_created;   // by ingest, create and batchCreate
  Counter& events_existing;  // client-chosen ids that existed already
  Counter& events_replaced;
  Counter& events_cancelled;
  Counter& schedule_changes;           // committed
  Counter& schedule_change_conflicts;  // tries that lost a race and were made again
  Counter& policy_changes;             // committed
  Counter& occurrences_emitted;        // by changes of schedules
  Counter& requests_swept;             // remembered answers that were dropped
  Counter& dead_letters_redriven;
  Counter& dead_letters_purged;
  Counter& dead_letters_collected;  // older than their retention
  Counter&
      definitions_collected;  // also those of deleted schedules, and deliveries of one-off events
  Counter& operation_conflicts;  // steps that lost a race and were made again
  // The watch of occurrences (account_loop.h); a sampled occurrence may be sampled again.
  Counter& occurrences_sampled;
  Counter& occurrences_unaccounted;
  Counter& notices;  // messages of subscriptions (notification_loop.h)
  Gauge& emission_behind_seconds;
  Gauge& heartbeat_late_seconds;
  Gauge& heartbeat_every_seconds;  // interval of the heartbeat schedule; 0: this master makes none
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_BASE_METRICS_H_
