#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/cron/cron_expression.h"
#include "common/cron/timetable.h"
#include "services/master/base/limits.h"
#include "services/master/codec/calendar_codec.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {
namespace {

constexpr char kTimeZoneDefault[] = "UTC";
constexpr char kTimeRange[] = "must be a time from 1970-01-01T00:00:00Z to the end of 2199";

std::string Between(absl::Duration min, absl::Duration max) {
  return absl::StrCat("must be from ", absl::FormatDuration(min), " to ",
                      absl::FormatDuration(max));
}

// Reads one request's fields. `fields_` names them.
class TimingReader {
 public:
  TimingReader(const v1::Schedule& schedule, const TimingFields& fields, Definition& definition,
               FieldViolations& violations)
      : schedule_(schedule), fields_(fields), definition_(definition), violations_(violations) {}

  void Read() {
    storage::v1::DefinitionRecord& record = definition_.record;
    const size_t before = violations_.size();
    ReadWhen();
    ReadZone();
    ReadDst();
    ReadRange();
    ReadExclusions();
    ReadMaxRuns();
    ReadJitter();
    ReadMisfire();
    ReadOverlap();
    if (timing_.ByteSizeLong() > 0) *record.mutable_timing() = std::move(timing_);
    if (violations_.size() != before) return;
    absl::StatusOr<cron::Timetable> timetable = TimetableOf(record);
    if (timetable.ok()) {
      definition_.timetable = *std::move(timetable);
    } else {
      Wrong("cron", timetable.status().message());
    }
  }

 private:
  void Wrong(absl::string_view name, absl::string_view description) {
    violations_.Add(fields_.Of(name), description);
  }

  void ReadWhen() {
    if (!schedule_.times().empty()) {
      if (schedule_.when_case() != v1::Schedule::WHEN_NOT_SET)
        Wrong("times", "only one of cron, cron_fields, interval and times may be set");
      return ReadTimes();
    }
    switch (schedule_.when_case()) {
      case v1::Schedule::kCron:
        return ReadCron();
      case v1::Schedule::kCronFields:
        return ReadCronFields();
      case v1::Schedule::kInterval:
        return ReadInterval();
      default:
        Wrong("cron", "is required, or cron_fields, interval or times instead");
    }
  }

  void ReadCron() {
    definition_.record.set_cron(schedule_.cron());
    if (auto parsed = cron::ParseCron(schedule_.cron()); !parsed.ok())
      Wrong("cron", parsed.status().message());
  }

  void ReadCronFields();
  void ReadInterval();
  void ReadTimes();

  void ReadZone() {
    const std::string& name =
        schedule_.time_zone().empty() ? kTimeZoneDefault : schedule_.time_zone();
    definition_.record.set_time_zone(name);
    if (auto zone = cron::Zone::Load(name); !zone.ok()) Wrong("time_zone", zone.status().message());
  }

  void ReadDst();
  void ReadRange();
  void ReadExclusions();

  void ReadMaxRuns() {
    if (schedule_.max_runs() < 0 || schedule_.max_runs() > kMaxRunsMax)
      return Wrong("max_runs", absl::StrCat("must be from 0 (no limit) to ", kMaxRunsMax));
    timing_.set_max_runs(static_cast<uint64_t>(schedule_.max_runs()));
  }

  void ReadJitter() {
    if (!schedule_.has_jitter()) return;
    const auto jitter = ToDuration(schedule_.jitter());
    if (!jitter.has_value() || *jitter < absl::ZeroDuration() || *jitter > kJitterMax)
      return Wrong("jitter", Between(absl::ZeroDuration(), kJitterMax));
    timing_.set_jitter_micros(MicrosUp(*jitter));
  }

  void ReadMisfire();

  void ReadOverlap() {
    if (!v1::Schedule::OverlapPolicy_IsValid(schedule_.overlap_policy()))
      return Wrong("overlap_policy", "must be ALLOW, SKIP, BUFFER_ONE or CANCEL_PREVIOUS");
    // The records count from 0, the default; the messages have "unspecified" before it.
    const int value = std::max(0, static_cast<int>(schedule_.overlap_policy()) - 1);
    definition_.record.set_run_overlap(static_cast<storage::v1::RunOverlapKind>(value));
  }

  const v1::Schedule& schedule_;
  const TimingFields& fields_;
  Definition& definition_;
  FieldViolations& violations_;
  storage::v1::TimingRecord timing_;
};

static_assert(v1::Schedule::ALLOW == storage::v1::RUN_OVERLAP_KIND_ALLOW + 1 &&
              v1::Schedule::SKIP == storage::v1::RUN_OVERLAP_KIND_SKIP + 1 &&
              v1::Schedule::BUFFER_ONE == storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE + 1 &&
              v1::Schedule::CANCEL_PREVIOUS == storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS + 1);
static_assert(v1::MisfirePolicy::FIRE_ALL == storage::v1::MISFIRE_KIND_FIRE_ALL + 1 &&
              v1::MisfirePolicy::FIRE_LATEST == storage::v1::MISFIRE_KIND_FIRE_LATEST + 1 &&
              v1::MisfirePolicy::SKIP == storage::v1::MISFIRE_KIND_SKIP + 1);
static_assert(v1::DstPolicy::Gap::AUTO == storage::v1::GAP_KIND_AUTO + 1 &&
              v1::DstPolicy::Gap::SKIP == storage::v1::GAP_KIND_SKIP + 1 &&
              v1::DstPolicy::Gap::FIRE_AFTER == storage::v1::GAP_KIND_FIRE_AFTER + 1 &&
              v1::DstPolicy::Gap::SHIFT == storage::v1::GAP_KIND_SHIFT + 1);
static_assert(v1::DstPolicy::Overlap::AUTO == storage::v1::FOLD_KIND_AUTO + 1 &&
              v1::DstPolicy::Overlap::FIRST == storage::v1::FOLD_KIND_FIRST + 1 &&
              v1::DstPolicy::Overlap::LAST == storage::v1::FOLD_KIND_LAST + 1 &&
              v1::DstPolicy::Overlap::BOTH == storage::v1::FOLD_KIND_BOTH + 1);

void TimingReader::ReadCronFields() {
  const v1::CronFields& given = schedule_.cron_fields();
  storage::v1::CronFieldsRecord& record = *timing_.mutable_cron_fields();
  record.set_month(given.month());
  record.set_day_of_month(given.day_of_month());
  record.set_day_of_week(given.day_of_week());
  record.set_hour(given.hour());
  record.set_minute(given.minute());
  record.set_second(given.second());
  record.set_year(given.year());
  const size_t before = violations_.size();
  // Each field is tried alone, so that every wrong one is named. In the order of the text.
  const cron::CronFields fields = {.second = given.second(),
                                   .minute = given.minute(),
                                   .hour = given.hour(),
                                   .day_of_month = given.day_of_month(),
                                   .month = given.month(),
                                   .day_of_week = given.day_of_week(),
                                   .year = given.year()};
  using F = cron::CronFields;
  const auto check = [&](absl::string_view name, absl::string_view F::*field, bool required) {
    const std::string path = absl::StrCat("cron_fields.", name);
    const absl::string_view text = fields.*field;
    if (text.empty()) {
      if (required) Wrong(path, "is required");
      return;
    }
    if (text.find_first_of(" \t") != absl::string_view::npos || text.front() == '@')
      return Wrong(path, "must be one field of a cron expression");
    F alone = {.minute = "0", .hour = "0"};
    alone.*field = text;
    if (auto parsed = cron::ParseCronFields(alone); !parsed.ok())
      Wrong(path, parsed.status().message());
  };
  check("second", &F::second, false);
  check("minute", &F::minute, true);
  check("hour", &F::hour, true);
  check("day_of_month", &F::day_of_month, false);
  check("month", &F::month, false);
  check("day_of_week", &F::day_of_week, false);
  check("year", &F::year, false);
  if (violations_.size() != before) return;
  definition_.record.set_cron(cron::TextOf(fields));
  // Each field may be right although all of them together are too long.
  if (auto parsed = cron::ParseCron(definition_.record.cron()); !parsed.ok())
    Wrong("cron_fields", parsed.status().message());
}

void TimingReader::ReadInterval() {
  const v1::Interval& interval = schedule_.interval();
  storage::v1::IntervalRecord& record = *timing_.mutable_interval();
  const auto every = ToDuration(interval.every());
  if (!interval.has_every()) {
    Wrong("interval.every", "is required");
  } else if (!every.has_value() || *every < kIntervalMin || *every > kIntervalMax) {
    Wrong("interval.every", Between(kIntervalMin, kIntervalMax));
  } else if (absl::Microseconds(absl::ToInt64Microseconds(*every)) != *every) {
    Wrong("interval.every", "must be whole microseconds");
  } else {
    record.set_every_micros(absl::ToInt64Microseconds(*every));
  }
  definition_.anchor_missing = !interval.has_anchor_time();
  if (!interval.has_anchor_time()) return;
  const auto anchor = TimestampMicros(interval.anchor_time());
  if (!anchor.has_value()) return Wrong("interval.anchor_time", "is not a valid time");
  record.set_anchor_micros(*anchor);
}

void TimingReader::ReadTimes() {
  if (schedule_.times_size() > kTimesMax)
    return Wrong("times", absl::StrCat("holds more than ", kTimesMax, " times"));
  std::map<int64_t, int> first;  // where a time was given
  for (int i = 0; i < schedule_.times_size(); ++i) {
    const std::string path = absl::StrCat("times[", i, "]");
    const auto micros = TimestampMicros(schedule_.times(i));
    if (!micros.has_value() || *micros < kTimingMicrosMin || *micros >= kTimingMicrosMax) {
      Wrong(path, kTimeRange);
      continue;
    }
    const auto [it, added] = first.emplace(*micros, i);
    if (!added) Wrong(path, absl::StrCat("is the same time as times[", it->second, "]"));
  }
  for (const auto& [micros, index] : first) timing_.add_times_micros(micros);
}

void TimingReader::ReadDst() {
  const v1::DstPolicy& policy = schedule_.dst_policy();
  const bool gap = v1::DstPolicy::Gap::Policy_IsValid(policy.gap());
  const bool fold = v1::DstPolicy::Overlap::Policy_IsValid(policy.overlap());
  if (!gap) Wrong("dst_policy.gap", "must be AUTO, SKIP, FIRE_AFTER or SHIFT");
  if (!fold) Wrong("dst_policy.overlap", "must be AUTO, FIRST, LAST or BOTH");
  if (!gap || !fold) return;
  timing_.set_gap(static_cast<storage::v1::GapKind>(std::max(0, policy.gap() - 1)));
  timing_.set_fold(static_cast<storage::v1::FoldKind>(std::max(0, policy.overlap() - 1)));
  const bool instants =
      schedule_.when_case() == v1::Schedule::kInterval || !schedule_.times().empty();
  if (!instants) return;
  constexpr char kOfCronOnly[] = "is of cron expressions only";
  if (timing_.gap() != storage::v1::GAP_KIND_AUTO) Wrong("dst_policy.gap", kOfCronOnly);
  if (timing_.fold() != storage::v1::FOLD_KIND_AUTO) Wrong("dst_policy.overlap", kOfCronOnly);
}

void TimingReader::ReadRange() {
  const auto read = [this](bool set, const google::protobuf::Timestamp& time,
                           const std::string& name, int64_t min) -> int64_t {
    if (!set) return 0;
    const auto micros = TimestampMicros(time);
    if (micros.has_value() && *micros >= min && *micros <= kTimingMicrosMax) return *micros;
    Wrong(name, kTimeRange);
    return 0;
  };
  const int64_t start = read(schedule_.has_start_time(), schedule_.start_time(), fields_.start_time,
                             kTimingMicrosMin);
  // 0 stands for "none"; nothing fires before it anyway.
  const int64_t end =
      read(schedule_.has_end_time(), schedule_.end_time(), fields_.end_time, kTimingMicrosMin + 1);
  timing_.set_start_micros(start);
  timing_.set_end_micros(end);
  if (end != 0 && start >= end)
    Wrong(fields_.end_time, absl::StrCat("must be after ", fields_.start_time));
}

void TimingReader::ReadExclusions() {
  if (schedule_.exclusions_size() > kExclusionsMax)
    return Wrong("exclusions", absl::StrCat("holds more than ", kExclusionsMax, " expressions"));
  for (int i = 0; i < schedule_.exclusions_size(); ++i) {
    if (auto parsed = cron::ParseExclusion(schedule_.exclusions(i)); !parsed.ok())
      Wrong(absl::StrCat("exclusions[", i, "]"), parsed.status().message());
    timing_.add_exclusions(schedule_.exclusions(i));
  }
}

void TimingReader::ReadMisfire() {
  const v1::MisfirePolicy& policy = schedule_.misfire_policy();
  const cron::MisfirePolicy defaults;
  storage::v1::MisfireRecord record;
  if (v1::MisfirePolicy::Action_IsValid(policy.action())) {
    record.set_action(static_cast<storage::v1::MisfireKind>(std::max(0, policy.action() - 1)));
  } else {
    Wrong("misfire_policy.action", "must be FIRE_ALL, FIRE_LATEST or SKIP");
  }
  record.set_threshold_micros(absl::ToInt64Microseconds(defaults.threshold));
  if (policy.has_threshold()) {
    const auto threshold = ToDuration(policy.threshold());
    if (threshold.has_value() && *threshold >= kMisfireThresholdMin &&
        *threshold <= kMisfireThresholdMax) {
      record.set_threshold_micros(MicrosUp(*threshold));
    } else {
      Wrong("misfire_policy.threshold", Between(kMisfireThresholdMin, kMisfireThresholdMax));
    }
  }
  if (policy.has_max_age()) {
    const auto max_age = ToDuration(policy.max_age());
    if (max_age.has_value() && *max_age >= kMisfireMaxAgeMin && *max_age <= kMisfireMaxAgeMax) {
      record.set_max_age_micros(MicrosUp(*max_age));
    } else {
      Wrong("misfire_policy.max_age", Between(kMisfireMaxAgeMin, kMisfireMaxAgeMax));
    }
  }
  record.set_max_catch_up(static_cast<uint32_t>(defaults.max_catch_up));
  if (policy.max_catch_up() < 0 || policy.max_catch_up() > kMaxCatchUpMax) {
    Wrong("misfire_policy.max_catch_up", absl::StrCat("must be from 1 to ", kMaxCatchUpMax));
  } else if (policy.max_catch_up() > 0) {
    record.set_max_catch_up(static_cast<uint32_t>(policy.max_catch_up()));
  }
  if (MisfirePolicyOf(record) != defaults)
    *definition_.record.mutable_misfire() = std::move(record);
}

// The fields that a preview has too.
v1::Schedule ScheduleOf(const v1::PreviewScheduleRequest& request) {
  v1::Schedule schedule;
  switch (request.when_case()) {
    case v1::PreviewScheduleRequest::kCron:
      schedule.set_cron(request.cron());
      break;
    case v1::PreviewScheduleRequest::kCronFields:
      *schedule.mutable_cron_fields() = request.cron_fields();
      break;
    case v1::PreviewScheduleRequest::kInterval:
      *schedule.mutable_interval() = request.interval();
      break;
    case v1::PreviewScheduleRequest::WHEN_NOT_SET:
      break;
  }
  *schedule.mutable_times() = request.times();
  schedule.set_time_zone(request.time_zone());
  if (request.has_dst_policy()) *schedule.mutable_dst_policy() = request.dst_policy();
  if (request.has_schedule_start_time())
    *schedule.mutable_start_time() = request.schedule_start_time();
  if (request.has_schedule_end_time()) *schedule.mutable_end_time() = request.schedule_end_time();
  *schedule.mutable_exclusions() = request.exclusions();
  schedule.set_calendar(request.calendar());
  schedule.set_on_excluded(request.on_excluded());
  return schedule;
}

void WriteWhen(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule) {
  const storage::v1::TimingRecord& timing = definition.timing();
  if (timing.has_interval()) {
    v1::Interval* interval = schedule.mutable_interval();
    SetDuration(timing.interval().every_micros(), *interval->mutable_every());
    SetTimestamp(timing.interval().anchor_micros(), *interval->mutable_anchor_time());
  } else if (!timing.times_micros().empty()) {
    for (const int64_t micros : timing.times_micros()) SetTimestamp(micros, *schedule.add_times());
  } else if (timing.has_cron_fields()) {
    const storage::v1::CronFieldsRecord& record = timing.cron_fields();
    v1::CronFields* fields = schedule.mutable_cron_fields();
    fields->set_month(record.month());
    fields->set_day_of_month(record.day_of_month());
    fields->set_day_of_week(record.day_of_week());
    fields->set_hour(record.hour());
    fields->set_minute(record.minute());
    fields->set_second(record.second());
    fields->set_year(record.year());
  } else {
    schedule.set_cron(definition.cron());
  }
}

}  // namespace

TimingFields PreviewFields() {
  return {.prefix = "", .start_time = "schedule_start_time", .end_time = "schedule_end_time"};
}

void ReadTiming(const v1::Schedule& schedule, Definition& definition, FieldViolations& violations) {
  const TimingFields fields;
  TimingReader(schedule, fields, definition, violations).Read();
}

void ReadTiming(const v1::PreviewScheduleRequest& request, absl::string_view tenant,
                Definition& definition, FieldViolations& violations) {
  const v1::Schedule schedule = ScheduleOf(request);
  const TimingFields fields = PreviewFields();
  TimingReader(schedule, fields, definition, violations).Read();
  ReadCalendarUse(schedule, tenant, fields, definition, violations);
}

void WriteTiming(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule) {
  const storage::v1::TimingRecord& timing = definition.timing();
  WriteWhen(definition, schedule);
  schedule.set_time_zone(definition.time_zone());
  if (!definition.cron().empty()) {
    v1::DstPolicy* dst = schedule.mutable_dst_policy();
    dst->set_gap(static_cast<v1::DstPolicy::Gap::Policy>(timing.gap() + 1));
    dst->set_overlap(static_cast<v1::DstPolicy::Overlap::Policy>(timing.fold() + 1));
  }
  if (timing.start_micros() != 0)
    SetTimestamp(timing.start_micros(), *schedule.mutable_start_time());
  if (timing.end_micros() != 0) SetTimestamp(timing.end_micros(), *schedule.mutable_end_time());
  schedule.set_max_runs(static_cast<int64_t>(timing.max_runs()));
  *schedule.mutable_exclusions() = timing.exclusions();
  if (timing.jitter_micros() != 0) SetDuration(timing.jitter_micros(), *schedule.mutable_jitter());
  const cron::MisfirePolicy misfire = MisfirePolicyOf(definition.misfire());
  v1::MisfirePolicy* policy = schedule.mutable_misfire_policy();
  policy->set_action(static_cast<v1::MisfirePolicy::Action>(static_cast<int>(misfire.action) + 1));
  SetDuration(absl::ToInt64Microseconds(misfire.threshold), *policy->mutable_threshold());
  policy->set_max_catch_up(static_cast<int32_t>(misfire.max_catch_up));
  if (definition.misfire().max_age_micros() > 0)
    SetDuration(definition.misfire().max_age_micros(), *policy->mutable_max_age());
  schedule.set_overlap_policy(
      static_cast<v1::Schedule::OverlapPolicy>(definition.run_overlap() + 1));
}

bool IsWhenField(const std::string& name) {
  return name == "cron" || name == "cron_fields" || name == "interval" || name == "times";
}

}  // namespace escapement::master
