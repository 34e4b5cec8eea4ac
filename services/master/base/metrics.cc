#include "services/master/base/metrics.h"

#include <string>

namespace escapement::master {
namespace {

Counter& Add(Metrics& metrics, const std::string& name, const std::string& help) {
  return *metrics.GetCounter("escapement_master_" + name + "_total", help);
}

}  // namespace

MasterMetrics::MasterMetrics(Metrics& metrics)
    : ingest_batches(Add(metrics, "ingest_batches", "Ingest batches made durable")),
      ingest_batches_refused(Add(metrics, "ingest_batches_refused", "Ingest batches refused")),
      events_created(Add(metrics, "events_created", "One-off events made durable")),
      events_existing(
          Add(metrics, "events_existing", "Events whose client-chosen id existed already")),
      events_replaced(
          Add(metrics, "events_replaced", "One-off events replaced before they were sent")),
      events_cancelled(Add(metrics, "events_cancelled", "One-off events cancelled")),
      schedule_changes(Add(metrics, "schedule_changes", "Changes of schedules made durable")),
      schedule_change_conflicts(
          Add(metrics, "schedule_change_conflicts", "Tries of changes that lost a race")),
      policy_changes(Add(metrics, "policy_changes", "Changes of throttling policies made durable")),
      occurrences_emitted(
          Add(metrics, "occurrences_emitted", "Occurrences emitted by changes of schedules")),
      requests_swept(Add(metrics, "requests_swept", "Remembered answers that were dropped")),
      dead_letters_redriven(Add(metrics, "dead_letters_redriven", "Dead letters redriven")),
      dead_letters_purged(
          Add(metrics, "dead_letters_purged", "Dead letters deleted by PurgeDeadLetters")),
      dead_letters_collected(Add(metrics, "dead_letters_collected",
                                 "Dead letters deleted because they were older than kept")),
      definitions_collected(Add(
          metrics, "definitions_collected",
          "Old versions of definitions, and old deliveries of one-off events, that were deleted")),
      operation_conflicts(
          Add(metrics, "operation_conflicts", "Steps of operations that lost a race")),
      occurrences_sampled(Add(metrics, "occurrences_sampled",
                              "Occurrences of the last minutes that this master has examined")),
      occurrences_unaccounted(Add(metrics, "occurrences_unaccounted",
                                  "Those of them of which the platform had no trace")),
      notices(Add(metrics, "notices", "Messages about problems that subscriptions have sent")),
      emission_behind_seconds(*metrics.GetGauge(
          "escapement_master_emission_behind_seconds",
          "Store time less emitted_to of the partition furthest behind, as this master reads it.")),
      heartbeat_late_seconds(
          *metrics.GetGauge("escapement_master_heartbeat_late_seconds",
                            "How long the oldest event of the heartbeat schedule has been due that "
                            "has not ended, as this master reads it.")),
      heartbeat_every_seconds(
          *metrics.GetGauge("escapement_master_heartbeat_every_seconds",
                            "Interval of the heartbeat schedule; 0 if this master makes none.")) {}

}  // namespace escapement::master
