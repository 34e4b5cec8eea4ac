#include "services/emitter/launches/metrics.h"

namespace escapement::emitter {
namespace {

Counter& SkippedFor(Metrics& metrics, const char* reason) {
  return *metrics.GetCounter("escapement_emitter_launches_skipped_total",
                             "Occurrences that were due but not launched.", {{"reason", reason}});
}

}  // namespace

LaunchMetrics::LaunchMetrics(Metrics& metrics)
    : launches(*metrics.GetCounter("escapement_emitter_launches_total",
                                   "Occurrences of schedules with an overlap policy launched.")),
      runs_cancelling(*metrics.GetCounter("escapement_emitter_launches_cancelling_total",
                                          "Launches that cancelled earlier runs.")),
      skipped_overlap(SkippedFor(metrics, "overlap")),
      skipped_deleted(SkippedFor(metrics, "deleted")),
      skipped_superseded(SkippedFor(metrics, "superseded")),
      refused(*metrics.GetCounter("escapement_emitter_launches_refused_total",
                                  "Decisions about launches that the store refused, because "
                                  "something had changed. They are made again.")),
      records_broken(*metrics.GetCounter("escapement_emitter_launch_records_broken_total",
                                         "Launch records that could not be read.")),
      waiting(*metrics.GetGauge("escapement_emitter_launches_waiting",
                                "Occurrences that are due and wait for the end of a run or of a "
                                "pause.")) {}

Counter& LaunchMetrics::Skipped(absl::string_view reason) {
  if (reason == "deleted") return skipped_deleted;
  if (reason == "superseded") return skipped_superseded;
  return skipped_overlap;
}

}  // namespace escapement::emitter
