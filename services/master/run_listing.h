// The runs of a schedule in the order of their occurrences.
//
// Runs of many events have rows (`runs`), and so have those of schedules with on_complete or an
// overlap policy, and backfilled and triggered ones; any other run of one is its Done record, or,
// while it is active, its row in the queue. An occurrence that was skipped as a whole is the record
// of that; one that waits for its launch is not listed yet. The listing goes through the civil
// dates that occurrences are named after. For one date it reads `runs` and, of each shard, the UTC
// days on which that date can fall (a day more where there may be jitter), all at once; a source
// that has more than a page is complete only up to its last entry, and so is the round. Active runs
// of one event are found where the schedule's occurrences of the last minutes and the next ones
// would be queued; one that is being retried for longer is listed once it has ended. Those of a
// throttled schedule are listed wherever throttled_events.h finds them, at most kActiveMax.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_RUN_LISTING_H_
#define SERVICES_MASTER_RUN_LISTING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "services/master/master_context.h"
#include "services/master/resource_name.h"
#include "services/master/schedule_reader.h"

namespace escapement::master {

struct RunListPosition {
  absl::CivilDay date;
  std::string after;  // an occurrence of that date; empty: from its beginning
};

// "20261121" and, after it, the occurrence.
std::string FormatPosition(const RunListPosition& position);
// INVALID_ARGUMENT (page_token).
absl::StatusOr<RunListPosition> ParsePosition(absl::string_view text);

struct RunListQuery {
  ScheduleName name;
  StoredSchedule schedule;
  RunListPosition begin;
  // Of the first page: it begins with the first run that has a record, if that is before `begin`
  // (backfilled runs are older than their schedule), but not before this date.
  std::optional<absl::CivilDay> oldest;
  size_t limit = 0;
};

struct RunListPage {
  std::vector<v1::Run> runs;
  bool more = false;
  RunListPosition next;
};

void ListRunsOf(MasterContext& context, RunListQuery query,
                absl::AnyInvocable<void(absl::StatusOr<RunListPage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUN_LISTING_H_
