// The emitter's metrics.
//
// Threads: any.

#ifndef SERVICES_EMITTER_BASE_METRICS_H_
#define SERVICES_EMITTER_BASE_METRICS_H_

#include "common/metrics/metrics.h"

namespace escapement::emitter {

struct EmitterMetrics {
  explicit EmitterMetrics(Metrics& metrics);

  Counter& windows;
  Counter& rows_read;  // children
  Counter& rows_due;   // children that had an occurrence in the window
  Counter& occurrences_emitted;
  Counter& occurrences_late;  // emitted more than kCatchUpAfter late
  Counter& events_emitted;    // all events of each occurrence
  // Occurrences that ended before they had any row, because of a misfire. A summary counts as all
  // occurrences that it stands for.
  Counter& skipped_misfire;
  Counter& groups_refused;    // a change of the schedule came first and took over
  Counter& children_removed;  // children that cannot fire again, at all or in their version
  Counter& records_broken;
  Counter& runs_closed;
  Counter& run_end_events;  // events put for an on_complete target
  Gauge& runs_at_risk;      // active runs that are AT_RISK or LATE in their windows
  Gauge& partitions;        // partitions held
  // Store time less emitted_to of the partition that is furthest behind. Negative: it is ahead. 0
  // without one.
  Gauge& behind_seconds;
  Gauge& held;  // 1 while the store's clock holds emission
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_BASE_METRICS_H_
