#include "services/master/codec/calendar_codec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/day_set.h"
#include "common/cron/zone.h"
#include "common/storage/children_table.h"
#include "google/protobuf/repeated_field.h"
#include "services/master/base/limits.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using storage::v1::CalendarDaysRecord;
using storage::v1::CalendarRecord;

constexpr absl::CivilDay kFirstDay(cron::kYearMin, 1, 1);
constexpr char kDayForm[] = "must be a day as YYYY-MM-DD, from 1970 to 2199";

// `differences` of ascending days.
void AddDifferences(const std::set<int32_t>& days,
                    google::protobuf::RepeatedField<uint32_t>& differences) {
  int32_t last = 0;
  for (const int32_t day : days) {
    differences.Add(static_cast<uint32_t>(day - last));
    last = day;
  }
}

void ReadDays(const google::protobuf::RepeatedPtrField<std::string>& texts, absl::string_view field,
              google::protobuf::RepeatedField<uint32_t>& differences, FieldViolations& violations) {
  std::set<int32_t> days;
  for (int i = 0; i < texts.size(); ++i) {
    const std::optional<int32_t> day = ParseDay(texts[i]);
    if (!day.has_value()) {
      violations.Add(absl::StrCat(field, "[", i, "]"), kDayForm);
    } else {
      days.insert(*day);
    }
  }
  if (days.size() > kCalendarDatesMax)
    return violations.Add(field, absl::StrCat("holds more than ", kCalendarDatesMax, " days"));
  AddDifferences(days, differences);
}

void WriteDays(const google::protobuf::RepeatedField<uint32_t>& differences,
               google::protobuf::RepeatedPtrField<std::string>& texts) {
  int64_t day = 0;
  for (const uint32_t difference : differences) *texts.Add() = DayText(day += difference);
}

void ReadRules(const v1::Calendar& calendar, CalendarDaysRecord& days,
               FieldViolations& violations) {
  if (calendar.rules_size() > kCalendarRulesMax) {
    return violations.Add("calendar.rules",
                          absl::StrCat("holds more than ", kCalendarRulesMax, " rules"));
  }
  for (int i = 0; i < calendar.rules_size(); ++i) {
    const std::string& rule = calendar.rules(i);
    const std::string field = absl::StrCat("calendar.rules[", i, "]");
    if (rule.size() > kCalendarRuleBytesMax) {
      violations.Add(field, absl::StrCat("must have at most ", kCalendarRuleBytesMax, " bytes"));
    } else if (const auto parsed = cron::ParseDayRule(rule); !parsed.ok()) {
      violations.Add(field, parsed.status().message());
    }
    days.add_rules(rule);
  }
}

void ReadOthers(const v1::Calendar& calendar, absl::string_view tenant, CalendarRecord& record,
                FieldViolations& violations) {
  if (calendar.calendars_size() > kCalendarOthersMax) {
    return violations.Add("calendar.calendars",
                          absl::StrCat("holds more than ", kCalendarOthersMax, " calendars"));
  }
  for (int i = 0; i < calendar.calendars_size(); ++i) {
    const std::string field = absl::StrCat("calendar.calendars[", i, "]");
    const size_t before = violations.size();
    const std::string id = ReadCalendarId(calendar.calendars(i), tenant, field, violations);
    if (id.empty() && violations.size() == before) violations.Add(field, "must not be empty");
    const auto& others = record.others();
    if (!id.empty() && std::find(others.begin(), others.end(), id) == others.end())
      record.add_others(id);
  }
}

// The size of a calendar with those that it contains.
struct CalendarSize {
  size_t bytes = 0;
  int rules = 0;
  int calendars = 0;
};

absl::Status AddDays(const Calendars& calendars, const std::string& id, int depth,
                     CalendarSize& size, CalendarDaysRecord& days) {
  // It also ends a circle.
  if (depth > kCalendarDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("contains calendars more than ", kCalendarDepthMax, " deep, or itself"));
  }
  const auto calendar = calendars.find(id);
  if (calendar == calendars.end())
    return absl::NotFoundError(absl::StrCat("calendar ", id, " does not exist"));
  days = calendar->second.record.days();
  constexpr size_t kFrameBytes = 6;  // tag and length in the one that contains it, at most
  size.bytes += days.ByteSizeLong() + kFrameBytes;
  size.rules += days.rules_size();
  if (size.bytes > kCalendarDaysBytesMax || size.rules > kCalendarRulesAllMax ||
      ++size.calendars > kCalendarNodesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("has more than ", kCalendarDaysBytesMax, " bytes, ", kCalendarRulesAllMax,
                     " rules or ", kCalendarNodesMax, " calendars with all that it contains"));
  }
  for (const std::string& other : calendar->second.record.others())
    RETURN_IF_ERROR(AddDays(calendars, other, depth + 1, size, *days.add_others()));
  return absl::OkStatus();
}

}  // namespace

std::optional<int32_t> ParseDay(absl::string_view text) {
  int year = 0, month = 0, day = 0;
  const auto digits = [](absl::string_view part) {
    return std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
  };
  if (text.size() != 10 || text[4] != '-' || text[7] != '-' || !digits(text.substr(0, 4)) ||
      !digits(text.substr(5, 2)) || !digits(text.substr(8, 2)) ||
      !absl::SimpleAtoi(text.substr(0, 4), &year) || !absl::SimpleAtoi(text.substr(5, 2), &month) ||
      !absl::SimpleAtoi(text.substr(8, 2), &day))
    return std::nullopt;
  if (year < cron::kYearMin || year > cron::kYearMax) return std::nullopt;
  const absl::CivilDay civil(year, month, day);
  if (civil.year() != year || civil.month() != month || civil.day() != day) return std::nullopt;
  return static_cast<int32_t>(civil - kFirstDay);
}

std::string DayText(int64_t day) {
  const absl::CivilDay civil = kFirstDay + day;
  return absl::StrFormat("%04d-%02d-%02d", civil.year(), civil.month(), civil.day());
}

std::string ReadCalendarId(const std::string& calendar, absl::string_view tenant,
                           absl::string_view field, FieldViolations& violations) {
  if (calendar.empty()) return std::string();
  // As in filters: without '/' it is an id of the tenant's.
  absl::StatusOr<CalendarName> name = ParseCalendarName(
      absl::StrContains(calendar, '/') ? calendar
                                       : CalendarName{std::string(tenant), calendar}.ToString(),
      field);
  if (!name.ok()) {
    violations.AddStatus("", name.status());
  } else if (name->tenant != tenant) {
    violations.Add(field, absl::StrCat("must be a calendar of tenants/", tenant));
  } else {
    return std::move(name->calendar);
  }
  return std::string();
}

absl::StatusOr<CalendarRecord> ReadCalendar(const v1::Calendar& calendar,
                                            absl::string_view tenant) {
  FieldViolations violations;
  CalendarRecord record;
  CheckShownText("calendar.display_name", calendar.display_name(), kDisplayNameCharsMax,
                 violations);
  record.set_display_name(calendar.display_name());
  CalendarDaysRecord& days = *record.mutable_days();
  ReadDays(calendar.dates(), "calendar.dates", *days.mutable_dates(), violations);
  ReadRules(calendar, days, violations);
  ReadOthers(calendar, tenant, record, violations);
  ReadDays(calendar.except_dates(), "calendar.except_dates", *days.mutable_except_dates(),
           violations);
  if (!violations.empty()) return violations.ToStatus();
  return record;
}

v1::Calendar ShowCalendar(const CalendarRecord& record) {
  v1::Calendar calendar;
  calendar.set_name(CalendarName{record.tenant(), record.calendar_id()}.ToString());
  calendar.set_display_name(record.display_name());
  WriteDays(record.days().dates(), *calendar.mutable_dates());
  *calendar.mutable_rules() = record.days().rules();
  for (const std::string& other : record.others())
    calendar.add_calendars(CalendarName{record.tenant(), other}.ToString());
  WriteDays(record.days().except_dates(), *calendar.mutable_except_dates());
  calendar.set_version(static_cast<int64_t>(record.version()));
  calendar.set_etag(CalendarEtag(record));
  SetTimestamp(record.create_time_micros(), *calendar.mutable_create_time());
  SetTimestamp(record.update_time_micros(), *calendar.mutable_update_time());
  return calendar;
}

std::string CalendarEtag(const CalendarRecord& record) {
  return absl::StrCat("\"", record.version(), "-", absl::Hex(record.create_time_micros()), "\"");
}

absl::StatusOr<CalendarDaysRecord> DaysOf(const Calendars& calendars, const std::string& id) {
  CalendarDaysRecord days;
  CalendarSize size;
  RETURN_IF_ERROR(AddDays(calendars, id, 1, size, days));
  return days;
}

std::set<std::string> ContainersOf(const Calendars& calendars, const std::string& id) {
  std::set<std::string> containers = {id};
  for (size_t before = 0; before != containers.size();) {
    before = containers.size();
    for (const auto& [container, stored] : calendars) {
      const auto& others = stored.record.others();
      if (std::any_of(others.begin(), others.end(),
                      [&](const std::string& other) { return containers.contains(other); }))
        containers.insert(container);
    }
  }
  return containers;
}

void ReadCalendarUse(const v1::Schedule& schedule, absl::string_view tenant,
                     const TimingFields& fields, Definition& definition,
                     FieldViolations& violations) {
  const std::string on_excluded = fields.Of("on_excluded");
  const std::string id =
      ReadCalendarId(schedule.calendar(), tenant, fields.Of("calendar"), violations);
  if (!v1::OnExcluded::Rule_IsValid(schedule.on_excluded()))
    return violations.Add(on_excluded, "must be SKIP, NEXT or PREVIOUS");
  const bool moves = schedule.on_excluded() == v1::OnExcluded::NEXT ||
                     schedule.on_excluded() == v1::OnExcluded::PREVIOUS;
  if (moves && schedule.calendar().empty())
    violations.Add(on_excluded, "may be NEXT or PREVIOUS only with a calendar");
  const bool instants =
      schedule.when_case() == v1::Schedule::kInterval || !schedule.times().empty();
  if (moves && instants) {
    violations.Add(on_excluded,
                   "may be NEXT or PREVIOUS only with a cron expression: set it to SKIP");
  }
  if (id.empty()) return;
  storage::v1::CalendarUseRecord& use = *definition.record.mutable_timing()->mutable_calendar();
  use.set_calendar_id(id);
  use.set_on_excluded(
      static_cast<storage::v1::ExcludedKind>(std::max(0, schedule.on_excluded() - 1)));
}

static_assert(v1::OnExcluded::SKIP == storage::v1::EXCLUDED_KIND_SKIP + 1 &&
              v1::OnExcluded::NEXT == storage::v1::EXCLUDED_KIND_NEXT + 1 &&
              v1::OnExcluded::PREVIOUS == storage::v1::EXCLUDED_KIND_PREVIOUS + 1);

void WriteCalendarUse(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule) {
  if (!definition.timing().has_calendar()) return;
  const storage::v1::CalendarUseRecord& use = definition.timing().calendar();
  schedule.set_calendar(CalendarName{definition.tenant(), use.calendar_id()}.ToString());
  schedule.set_on_excluded(static_cast<v1::OnExcluded::Rule>(use.on_excluded() + 1));
}

absl::Status SetCalendarDays(const Calendars& calendars, size_t children_bytes_max,
                             Definition& definition, const TimingFields& fields) {
  storage::v1::CalendarUseRecord& use = *definition.record.mutable_timing()->mutable_calendar();
  absl::StatusOr<CalendarDaysRecord> days = DaysOf(calendars, use.calendar_id());
  if (!days.ok()) return InvalidField(fields.Of("calendar"), days.status().message());
  *use.mutable_days() = *std::move(days);
  ASSIGN_OR_RETURN(definition.timetable, TimetableOf(definition.record));
  size_t children = std::max(definition.record.timing().times_micros().size(), 1);
  if (definition.timetable.calendar()) children = definition.timetable.ChildPlaces().size();
  if (use.days().ByteSizeLong() * children > children_bytes_max) {
    return InvalidField(
        fields.Of("calendar"),
        absl::StrCat("has days of ", use.days().ByteSizeLong(), " bytes, and the schedule ",
                     children, " hours and minutes or times, each with all days: together at most ",
                     children_bytes_max, " bytes are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace escapement::master
