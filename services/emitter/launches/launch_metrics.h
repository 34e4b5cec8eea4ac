// Metrics of the launch loop.
//
// Threads: any.

#ifndef SERVICES_EMITTER_LAUNCHES_LAUNCH_METRICS_H_
#define SERVICES_EMITTER_LAUNCHES_LAUNCH_METRICS_H_

#include "absl/strings/string_view.h"
#include "common/metrics/metrics.h"

namespace escapement::emitter {

struct LaunchMetrics {
  explicit LaunchMetrics(Metrics& metrics);

  Counter& launches;
  Counter& runs_cancelling;  // of those: with an earlier run cancelled
  Counter& skipped_overlap;
  Counter& skipped_deleted;
  Counter& skipped_superseded;
  Counter& refused;  // decisions that were based on what was not so any more, and made anew
  Counter& records_broken;
  Gauge& waiting;  // launch records that are due and wait for the end of a run, or of a pause

  // By reason.
  Counter& Skipped(absl::string_view reason);
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_LAUNCH_METRICS_H_
