// Reads schedules for display.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_SCHEDULE_READER_H_
#define SERVICES_MASTER_SCHEDULES_SCHEDULE_READER_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/codec/calendar_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

struct StoredSchedule {
  Uid uid;
  storage::v1::ScheduleRecord record;
  storage::v1::StateRecord state;
  Definition definition;              // its timetable ends at FinishOf(state)
  storage::v1::RunPartRecord counts;  // counts of all runs, if they are asked for
};

// With counts. NOT_FOUND if there is none.
void ReadSchedule(MasterContext& context, ScheduleName name,
                  absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done);

// The schedule whose runs are meant by the name, without counts. If there is none, the one that had
// the name and was deleted last, as long as it is kept. NOT_FOUND if there is none either.
void ReadScheduleOfRuns(MasterContext& context, ScheduleName name,
                        absl::AnyInvocable<void(absl::StatusOr<StoredSchedule>)> done);

// A row of `schedules`, without state and definition.
absl::StatusOr<StoredSchedule> ReadScheduleRecord(const std::string& bytes);

struct SchedulePage {
  std::vector<StoredSchedule> schedules;
  std::string next;  // schedule id at which the read ended early; empty: all are read
};
// Reads states, definitions and, if `counts`, counts of schedules whose rows are known: in their
// order, without payloads, and about a page's bytes (range_reader.h). A schedule that is deleted
// during the read is left out.
void ReadScheduleDetails(MasterContext& context, std::vector<StoredSchedule> schedules, bool counts,
                         absl::AnyInvocable<void(absl::StatusOr<SchedulePage>)> done);

// Reads the counts of all runs of schedules, summed over their parts.
//
// Threads: the callback runs on the context's executor.

// One sum for each uid, in their order. All schedules are read at once, so their number must be
// bounded.
void ReadScheduleCounts(
    MasterContext& context, const std::vector<Uid>& uids,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<storage::v1::RunPartRecord>>)> done);

// The entries of an enabled schedule in the children index. A cron expression has them in the order
// of Timetable::ChildPlaces, at most kPreviewChildrenMax. An interval has one for its next instant,
// a list of instants one for each that is to come. Pure.
std::vector<v1::PreviewScheduleResponse::Child> ChildrenOf(const cron::Timetable& timetable,
                                                           absl::Time now);

// Shows when a schedule with given times would fire. Pure. `calendars`: those of the request's
// parent, if it names a calendar.

// INVALID_ARGUMENT with every wrong field; times that never fire have the reason
// IMPOSSIBLE_EXPRESSION. FAILED_PRECONDITION (CalendarMissing) if there is no such calendar. Times
// that are all in the past are refused, as for a new schedule, unless from_time is before them. An
// interval without an anchor is anchored at `now`. Occurrences and warnings are as seen at
// from_time, by default at `now`.
//
// A civil time that a gap skips is no occurrence; a warning names it.
absl::StatusOr<v1::PreviewScheduleResponse> Preview(const v1::PreviewScheduleRequest& request,
                                                    const Calendars& calendars, absl::Time now);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_SCHEDULE_READER_H_
