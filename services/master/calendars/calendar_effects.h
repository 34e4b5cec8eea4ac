// Reads the schedules that have a calendar's days: how many they are, and which of their
// occurrences a change of the days moves.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_CALENDARS_CALENDAR_EFFECTS_H_
#define SERVICES_MASTER_CALENDARS_CALENDAR_EFFECTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/calendar_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/codec/calendar_codec.h"

namespace escapement::master {

// Counts the schedules that name one of the calendars (ids), at most kCountRowsMax for each, and
// those of them that a change of it has not come to.
struct CalendarUsers {
  int64_t schedules = 0;
  int64_t outdated = 0;
};
void CountCalendarUsers(MasterContext& context, const std::string& tenant,
                        const std::set<std::string>& calendars,
                        absl::AnyInvocable<void(absl::StatusOr<CalendarUsers>)> done);

// The effects of a change that gives calendars (by id) other days: schedule_count, moves and `more`
// of the answer. The schedules are read one after the other, not in one snapshot, and compared as
// they are: one that has not got the days of an earlier change yet moves by both. A schedule that
// is paused or has ended has no moves.
using CalendarDays = std::map<std::string, storage::v1::CalendarDaysRecord>;
void ReadCalendarEffects(MasterContext& context, const std::string& tenant, CalendarDays next,
                         absl::AnyInvocable<void(absl::StatusOr<v1::UpdateCalendarResponse>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CALENDARS_CALENDAR_EFFECTS_H_
