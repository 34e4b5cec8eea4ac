// IcsDays: the days of the events of an iCalendar file (RFC 5545), such as a list of holidays.
//
// It reads VEVENT with DTSTART, DTEND or DURATION, RRULE, RDATE, EXDATE, RECURRENCE-ID and STATUS;
// all else is passed over. Rules of recurrence have a FREQ of DAILY, WEEKLY, MONTHLY or YEARLY, and
// any parts except BYWEEKNO and those of the time of day, each at most once. A rule with COUNT
// starts in 1970 or later. A rule, or a line that cannot be read, is refused rather than guessed
// at.
//
// The text comes from anywhere, and it is read at once. Memory and work are bounded by the bytes of
// the text plus kIcsDaysTriedMax: a long list in a rule does not make a day cost more.
//
// Pure.

#ifndef SERVICES_MASTER_CALENDARS_ICS_DAYS_H_
#define SERVICES_MASTER_CALENDARS_ICS_DAYS_H_

#include <cstdint>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::master {

// Days from 1970-01-01, of the years 1970 to 2199. An event with a time of day has the days on
// which it is in its own zone. A rule of recurrence gives days from one year before `today` to
// kIcsYears after it. INVALID_ARGUMENT, without details, with the line at fault: the text is no
// calendar, or has more than kCalendarDatesMax days, or none, or takes more work than
// kIcsDaysTriedMax.
absl::StatusOr<std::set<int32_t>> IcsDays(absl::string_view text, int64_t today);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CALENDARS_ICS_DAYS_H_
