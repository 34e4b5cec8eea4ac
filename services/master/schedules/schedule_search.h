// SearchSchedules: one page of a list of schedules. VisitSchedules: all schedules of a tenant.
//
// Candidates come from the names of the tenant, or from the index of labels if the filter needs a
// label. They are read some at a time: for a page, until it is full or enough of them have been
// examined.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_SEARCH_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_SEARCH_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/list_filter.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {

// The schedule as clients see it at `now`.
v1::Schedule Show(const StoredSchedule& stored, absl::Time now);

// INVALID_ARGUMENT (filter). Names and policies without "/" are those of the tenant.
absl::StatusOr<ListFilter> ReadScheduleFilter(absl::string_view text, absl::string_view tenant);

struct ScheduleQuery {
  std::string tenant;
  // The schedule id to begin with, or empty.
  std::string begin;
  bool descending = false;
  int page_size = 0;
  ListFilter filter;
};

struct ShownSchedules {
  std::vector<v1::Schedule> schedules;  // without payloads
  std::string next;                     // schedule id to begin with; empty at the end
};

// A schedule that is deleted during the read is left out.
void SearchSchedules(MasterContext& context, ScheduleQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<ShownSchedules>)> done);

// Reads all schedules of the tenant that the filter may match, in the order of their names, without
// payloads and counts. Calls `visit` with some of them (about a page's bytes, range_reader.h), and
// reads on when `visit` calls `next`. `visit` asks the filter. `done` follows the last `next`, or
// the first error. Reads of several chunks are of several snapshots.
using VisitSchedulesNext = absl::AnyInvocable<void()>;
void VisitSchedules(
    MasterContext& context, const std::string& tenant, const ListFilter& filter,
    absl::AnyInvocable<void(std::vector<StoredSchedule> chunk, VisitSchedulesNext next)> visit,
    absl::AnyInvocable<void(absl::Status)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_SEARCH_H_
