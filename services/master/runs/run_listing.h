// The runs of a schedule in the order of their nominal times.
//
// Some runs have rows in `runs`: runs of many events, runs of schedules with on_complete or an
// overlap policy, backfilled runs and triggered runs. Any other run of one event is its Done record
// or, while it is active, its row in the queue. An occurrence that was skipped as a whole is its
// Done record. An occurrence that waits for its launch is not listed yet.
//
// The listing goes through time, window by window (run_window.h). A window with too many runs is
// read again as narrower ones. Active runs of one event are found at the queue keys of the
// schedule's occurrences of the last minutes and the next ones. A run that is retried for longer is
// listed once it has ended. Active runs of a throttled schedule are listed where throttled_events.h
// finds them, at most kActiveMax.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUNS_RUN_LISTING_H_
#define SERVICES_MASTER_RUNS_RUN_LISTING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"
#include "services/master/runs/run_filter.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {

// All runs before this position (in the list's direction) have been listed. Runs with the same
// nominal time are ordered by occurrence.
struct RunListPosition {
  absl::Time nominal_time;
  std::string occurrence;  // empty: before all of that time

  friend bool operator<(const RunListPosition& a, const RunListPosition& b) {
    return a.nominal_time != b.nominal_time ? a.nominal_time < b.nominal_time
                                            : a.occurrence < b.occurrence;
  }
};

std::string FormatPosition(const RunListPosition& position);
// INVALID_ARGUMENT (page_token).
absl::StatusOr<RunListPosition> ParsePosition(absl::string_view text);

struct RunListQuery {
  ScheduleName name;
  StoredSchedule schedule;
  bool newest_first = false;
  RunFilter filter;
  std::optional<RunListPosition> after;  // nullopt: from the beginning
  absl::Time oldest;                     // no run with an earlier nominal time is listed
  size_t limit = 0;
};

struct RunListPage {
  std::vector<v1::Run> runs;
  bool more = false;
  RunListPosition next;  // where `more` goes on: after it
};

void ListRunsOf(MasterContext& context, RunListQuery query,
                absl::AnyInvocable<void(absl::StatusOr<RunListPage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_LISTING_H_
