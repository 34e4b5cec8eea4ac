// Reads the calendars of a tenant.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_CALENDAR_READER_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_CALENDAR_READER_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/master/base/master_context.h"
#include "services/master/codec/calendar_codec.h"

namespace escapement::master {

// All calendars of the tenant: at most kCalendarsMax.
void ReadCalendars(MasterContext& context, const std::string& tenant,
                   absl::AnyInvocable<void(absl::StatusOr<Calendars>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_CALENDAR_READER_H_
