// Metrics of the launch loop.
//
// Threads: any.

#ifndef SERVICES_EMITTER_LAUNCHES_METRICS_H_
#define SERVICES_EMITTER_LAUNCHES_METRICS_H_

#include "absl/strings/string_view.h"
#include "common/metrics/metrics.h"

namespace escapement::emitter {

struct LaunchMetrics {
  explicit LaunchMetrics(Metrics& metrics);

  Counter& launches;
  Counter& runs_cancelling;  // launches that cancelled an earlier run
  Counter& skipped_overlap;
  Counter& skipped_deleted;
  Counter& skipped_superseded;
  Counter& refused;  // decisions that the store refused because their facts had changed; made again
  Counter& records_broken;
  Gauge& waiting;  // launch records that are due and wait for the end of a run, or of a pause

  // The counter of `reason`: "deleted", "superseded", otherwise overlap.
  Counter& Skipped(absl::string_view reason);
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_METRICS_H_
