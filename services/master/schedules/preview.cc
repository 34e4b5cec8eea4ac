#include "services/master/schedules/preview.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "common/cron/description.h"
#include "common/cron/launch_expression.h"
#include "common/cron/zone.h"
#include "common/status/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/timing_codec.h"
#include "services/master/schedules/changes/schedule_warnings.h"
#include "services/master/schedules/changes/upcoming.h"

namespace escapement::master {
namespace {

std::string LocalTime(absl::Time time, const cron::Zone& zone) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E*S%Ez", time, zone.time_zone());
}

// "Every 2 hours", in the largest unit that divides it.
std::string DescribeInterval(absl::Duration every) {
  struct Unit {
    absl::Duration size;
    const char* name;
  };
  for (const Unit& unit : {Unit{absl::Hours(24), "day"}, Unit{absl::Hours(1), "hour"},
                           Unit{absl::Minutes(1), "minute"}, Unit{absl::Seconds(1), "second"}}) {
    absl::Duration rest;
    const int64_t count = absl::IDivDuration(every, unit.size, &rest);
    if (rest != absl::ZeroDuration()) continue;
    if (count == 1) return absl::StrCat("Every ", unit.name);
    return absl::StrCat("Every ", count, " ", unit.name, "s");
  }
  return absl::StrCat("Every ", absl::FormatDuration(every));
}

std::string DescribeExclusions(const storage::v1::TimingRecord& timing) {
  constexpr int kNamedMax = 3;
  if (timing.exclusions_size() > kNamedMax)
    return absl::StrCat(", except what ", timing.exclusions_size(), " exclusions match");
  std::vector<std::string> quoted;
  for (const std::string& text : timing.exclusions())
    quoted.push_back(absl::StrCat("\"", text, "\""));
  return quoted.empty() ? std::string() : absl::StrCat(", except ", absl::StrJoin(quoted, " and "));
}

std::string DescribeTiming(const Definition& definition) {
  const cron::TimetableSpec& spec = definition.timetable.spec();
  std::string text;
  if (spec.cron.has_value()) {
    text = cron::Describe(*spec.cron);
  } else if (definition.record.timing().has_interval()) {
    text = DescribeInterval(spec.every);
  } else {
    text =
        absl::StrCat("At ", spec.times.size(), " given instant", spec.times.size() == 1 ? "" : "s");
  }
  absl::StrAppend(&text, DescribeExclusions(definition.record.timing()));
  if (spec.start != absl::InfinitePast())
    absl::StrAppend(&text, ", from ", LocalTime(spec.start, spec.zone), " on");
  if (spec.end != absl::InfiniteFuture())
    absl::StrAppend(&text, ", before ", LocalTime(spec.end, spec.zone));
  return text;
}

std::string PlacePart(uint8_t part) {
  return part == cron::kAnyPlace ? std::string("*") : absl::StrCat(static_cast<int>(part));
}

void AddChildren(const cron::Timetable& timetable, absl::Time now,
                 v1::PreviewScheduleResponse& response) {
  if (!timetable.calendar()) {
    // An interval stands under its next instant, a list under each that is to come.
    const size_t max = timetable.spec().times.empty() ? 1 : timetable.spec().times.size();
    for (size_t i = UpcomingOf(timetable, now, max, kPreviewCandidatesMax).occurrences.size();
         i > 0; --i)
      response.add_children()->set_class_("INSTANT");
    return;
  }
  for (const cron::Place& place : cron::ChildPlaces(*timetable.spec().cron)) {
    if (response.children_size() == kPreviewChildrenMax) return;
    v1::PreviewScheduleResponse::Child* child = response.add_children();
    child->set_launch_expression(cron::DescribeLaunchExpression(place));
    child->set_class_(std::string(cron::LaunchClassName(place.expression.launch_class)));
    child->set_hour(PlacePart(place.hour));
    child->set_minute(PlacePart(place.minute));
  }
}

struct Wanted {
  Definition definition;
  absl::Time from;  // the first occurrence is after it
  size_t count = 0;
};

absl::StatusOr<Wanted> Read(const v1::PreviewScheduleRequest& request, absl::Time now) {
  FieldViolations violations;
  Wanted wanted;
  ReadTiming(request, wanted.definition, violations);
  wanted.from = now;
  if (request.has_from_time()) {
    if (const auto micros = TimestampMicrosDown(request.from_time()); micros.has_value()) {
      wanted.from = FromMicros(*micros);
    } else {
      violations.Add("from_time", "is not a valid time");
    }
  }
  const int32_t count = request.count() == 0 ? kPreviewCountDefault : request.count();
  if (count < 1 || count > kPreviewCountMax)
    violations.Add("count", absl::StrCat("must be from 1 to ", kPreviewCountMax));
  wanted.count = static_cast<size_t>(std::clamp(count, 1, kPreviewCountMax));
  if (!violations.empty()) return violations.ToStatus();
  FillAnchor(wanted.definition, now);
  if (absl::Status fires = CheckFires(wanted.definition, PreviewFields()); !fires.ok())
    return fires;
  absl::Status fires =
      CheckFiresAfter(wanted.definition, std::min(now, wanted.from), PreviewFields());
  if (!fires.ok()) return fires;
  return wanted;
}

}  // namespace

absl::StatusOr<v1::PreviewScheduleResponse> Preview(const v1::PreviewScheduleRequest& request,
                                                    absl::Time now) {
  absl::StatusOr<Wanted> wanted = Read(request, now);
  if (!wanted.ok()) return wanted.status();
  const auto& [definition, from, count] = *wanted;
  const cron::Timetable& timetable = definition.timetable;
  v1::PreviewScheduleResponse response;
  response.set_description(DescribeTiming(definition));
  const Upcoming upcoming =
      UpcomingOf(timetable, from + absl::Nanoseconds(1), count, kPreviewCandidatesMax);
  for (const cron::Occurrence& o : upcoming.occurrences) {
    v1::PreviewScheduleResponse::Occurrence* shown = response.add_occurrences();
    SetTimestamp(ToMicros(o.instant), *shown->mutable_time());
    shown->set_local_time(LocalTime(o.instant, timetable.spec().zone));
    shown->set_note(std::string(cron::NoteName(o.note)));
    shown->set_occurrence(timetable.IdOf(o));
  }
  AddChildren(timetable, now, response);
  if (!upcoming.complete) {
    response.add_warnings(absl::StrCat("not all occurrences are shown: more than ",
                                       kPreviewCandidatesMax, " were looked at"));
  }
  for (std::string& warning : WarningsOf(definition, from))
    response.add_warnings(std::move(warning));
  response.set_tz_version(cron::TzdataVersion());
  return response;
}

}  // namespace escapement::master
