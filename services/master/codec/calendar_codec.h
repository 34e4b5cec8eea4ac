// Calendars: public messages ↔ records, with full validation, and the days of a calendar with those
// that it contains.
//
// Days are counted from 1970-01-01. Pure.

#ifndef SERVICES_MASTER_CODEC_CALENDAR_CODEC_H_
#define SERVICES_MASTER_CODEC_CALENDAR_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/calendar_service.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {

// YYYY-MM-DD, from 1970 to 2199; nullopt for all else.
std::optional<int32_t> ParseDay(absl::string_view text);
std::string DayText(int64_t day);

// The id of the calendar that a schedule or calendar names in `field`, by its full name or its id.
// Empty if there is none, or a wrong one, which adds an error.
std::string ReadCalendarId(const std::string& calendar, absl::string_view tenant,
                           absl::string_view field, FieldViolations& violations);

// Reads a client's calendar: everything except name, version and times. INVALID_ARGUMENT with every
// field that is wrong ("calendar.rules[2]"). Whether its calendars exist is not checked.
absl::StatusOr<storage::v1::CalendarRecord> ReadCalendar(const v1::Calendar& calendar,
                                                         absl::string_view tenant);

// Without the fields that only GetCalendar has.
v1::Calendar ShowCalendar(const storage::v1::CalendarRecord& record);

// Quoted: version and creation, since a calendar that is made again counts from 1 again.
std::string CalendarEtag(const storage::v1::CalendarRecord& record);

// Calendars of one tenant, by id.
struct StoredCalendar {
  std::string bytes;  // as they were read
  storage::v1::CalendarRecord record = {};
};
using Calendars = std::map<std::string, StoredCalendar>;

// The days of a calendar with those of the calendars that it contains. INVALID_ARGUMENT, without
// details, if they are too many bytes or too deep, or go round in a circle; NOT_FOUND if
// `calendars` lacks one.
absl::StatusOr<storage::v1::CalendarDaysRecord> DaysOf(const Calendars& calendars,
                                                       const std::string& id);

// The calendar and all that contain it, at any depth.
std::set<std::string> ContainersOf(const Calendars& calendars, const std::string& id);

// The calendar of a schedule: `calendar` and `on_excluded` ↔ TimingRecord.calendar, without its
// days. Adds each error to `violations`.
void ReadCalendarUse(const v1::Schedule& schedule, absl::string_view tenant,
                     const TimingFields& fields, Definition& definition,
                     FieldViolations& violations);
void WriteCalendarUse(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule);

// Sets the present days of the definition's calendar, and its timetable. INVALID_ARGUMENT (the
// field `calendar`) if DaysOf fails, or if the days are more than `children_bytes_max` bytes in all
// of the schedule's children.
absl::Status SetCalendarDays(const Calendars& calendars, size_t children_bytes_max,
                             Definition& definition, const TimingFields& fields = {});

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_CALENDAR_CODEC_H_
