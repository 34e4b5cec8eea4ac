// The `filter` of ListRuns: conditions on state, nominal_time and complete_time.
//
// Pure.

#ifndef SERVICES_MASTER_RUNS_RUN_LISTING_H_
#define SERVICES_MASTER_RUNS_RUN_LISTING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/zone.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {

// INVALID_ARGUMENT (filter).
absl::StatusOr<ListFilter> ReadRunFilter(absl::string_view text);

// Where, among occurrences in the order of their texts, those of a span of time stand.
//
// The text of an occurrence begins with its civil time in the schedule's zone, or in UTC
// (common/cron/timetable.h). So the occurrences of a span of time stand in one range of texts
// for each zone.
//
// Pure.

// Texts in [begin, end).
struct TextRange {
  std::string begin;
  std::string end;
};

// Ranges that hold the texts of all occurrences with a nominal time in [begin, end), ascending and
// apart; others stand in them, too. `zones`: all that the texts may name, beside UTC; empty: it may
// be any. They stay right if the rules of a zone have changed since by at most an hour.
std::vector<TextRange> OccurrenceRanges(absl::Time begin, absl::Time end,
                                        const std::vector<cron::Zone>& zones);

// The runs of a schedule in the order of their nominal times.
//
// Some runs have rows in `runs`: runs of many events, runs of schedules with on_complete or an
// overlap policy, backfilled runs and triggered runs. Any other run of one event is its Done record
// or, while it is active, its row in the queue or in a claim. An occurrence that was skipped as a
// whole is its Done record. An occurrence that waits for its launch is its launch record.
//
// The listing goes through time, window by window (run_window.h). A window with too many runs is
// read again as narrower ones. Active runs of one event, and launch records, are found wherever
// they are (single_event.h). They are searched for in chunks of time, each with at most 2,000
// occurrences that may be in the queue: of the present version, and of former ones that have
// emitted them.
//
// Threads: the callback runs on the context's executor.

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
  ListFilter filter;
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
