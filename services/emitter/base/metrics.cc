#include "services/emitter/base/metrics.h"

namespace escapement::emitter {

EmitterMetrics::EmitterMetrics(Metrics& metrics)
    : windows(*metrics.GetCounter("escapement_emitter_windows_total",
                                  "Windows of partitions scanned.")),
      rows_read(*metrics.GetCounter("escapement_emitter_rows_read_total", "Children read.")),
      rows_due(*metrics.GetCounter("escapement_emitter_rows_due_total",
                                   "Children that had an occurrence in the window.")),
      occurrences_emitted(
          *metrics.GetCounter("escapement_emitter_occurrences_total", "Occurrences emitted.")),
      occurrences_late(*metrics.GetCounter("escapement_emitter_occurrences_late_total",
                                           "Occurrences emitted into the catch-up lane.")),
      events_emitted(*metrics.GetCounter("escapement_emitter_events_total",
                                         "Events of the occurrences emitted.")),
      skipped_misfire(*metrics.GetCounter(
          "escapement_emitter_occurrences_skipped_total",
          "Occurrences that ended as skipped before they had any row.", {{"reason", "misfire"}})),
      groups_refused(
          *metrics.GetCounter("escapement_emitter_groups_refused_total",
                              "Children whose schedule changed between scan and commit.")),
      children_removed(*metrics.GetCounter("escapement_emitter_children_removed_total",
                                           "Children deleted because they can fire no more.")),
      records_broken(*metrics.GetCounter("escapement_emitter_records_broken_total",
                                         "Records that could not be read.")),
      runs_closed(*metrics.GetCounter("escapement_emitter_runs_closed_total",
                                      "Runs whose events have all ended.")),
      run_end_events(*metrics.GetCounter("escapement_emitter_run_end_events_total",
                                         "Events put that tell an on_complete target of the end "
                                         "of a run.")),
      runs_at_risk(*metrics.GetGauge(
          "escapement_run_at_risk",
          "Active runs that will not end before their window closes, or whose window has closed.")),
      partitions(*metrics.GetGauge("escapement_emitter_partitions", "Partitions held.")),
      behind_seconds(*metrics.GetGauge(
          "escapement_emitter_behind_seconds",
          "Store time less emitted_to of the partition furthest behind; 0 if none is held.")),
      held(*metrics.GetGauge("escapement_emitter_clock_hold",
                             "1 while the store's clock holds emission.")) {}

}  // namespace escapement::emitter
