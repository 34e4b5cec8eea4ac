#include "tools/escctl/base/timing_flags.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "tools/escctl/base/flags.h"

namespace escapement::escctl {
namespace {

using Fields = std::vector<std::string>;

// True if the only element is empty, which means: no values.
bool Clears(const std::vector<std::string>& texts) {
  return texts.size() == 1 && texts.front().empty();
}

}  // namespace

void TimingFlags::AddForPreview(CLI::App& command) {
  command.add_option("--cron", cron_,
                     "cron expression of five to seven fields, or a macro such as @daily");
  // Each repetition of the flag takes one value, so that a name may follow it.
  command
      .add_option("--cron-field", cron_fields_,
                  "one field of a cron expression, e.g. hour=3; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--every", every_, "fixed period, e.g. 90s");
  command.add_option("--anchor", anchor_,
                     "an occurrence of the interval; default: the schedule's creation");
  command.add_option("--at", at_, "one-off time (RFC 3339, or +90s); may be repeated")
      ->allow_extra_args(false);
  command.add_option("--time-zone", time_zone_, "IANA name; default UTC");
  command.add_option("--gap", gap_,
                     "rule for times that the zone skips: auto, skip, fire-after or shift");
  command.add_option("--fold", fold_,
                     "rule for times that the zone repeats: auto, first, last or both");
  command.add_option("--start", start_, "no occurrence before this time; \"\" for no bound");
  command.add_option("--end", end_, "no occurrence at or after this time; \"\" for no bound");
  command
      .add_option("--exclude", exclusions_,
                  "cron expression of times that do not fire; may be repeated; \"\" for none")
      ->allow_extra_args(false);
  command.add_option("--calendar", calendar_,
                     "id or full name of a calendar on whose days it does not fire; \"\" for none");
  command.add_option("--on-excluded", on_excluded_,
                     "rule for an occurrence on such a day: skip, next (day that is not in the "
                     "calendar) or previous");
}

void TimingFlags::Add(CLI::App& command) {
  AddForPreview(command);
  command.add_option("--max-runs", max_runs_, "finish after this many occurrences; 0 for no limit")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--jitter", jitter_, "upper bound of a random delay, e.g. 30s; \"\" for none");
  command.add_option("--misfire", misfire_,
                     "rule for missed occurrences: fire-all, fire-latest or skip");
  command.add_option("--misfire-threshold", misfire_threshold_,
                     "an occurrence later than this is missed, e.g. 60s; during a pause every "
                     "occurrence is");
  command
      .add_option("--max-catch-up", max_catch_up_,
                  "most missed occurrences that are handled one by one")
      ->check(CLI::PositiveNumber);
  command.add_option(
      "--misfire-max-age", misfire_max_age_,
      "a missed occurrence older than this does not fire, e.g. 24h; \"\" for no bound");
  command.add_option("--overlap", overlap_,
                     "rule while a run is active: allow, skip, buffer-one or cancel-previous");
}

absl::Status TimingFlags::ApplyCronFields(v1::Schedule& schedule, Fields& fields) const {
  ASSIGN_OR_RETURN(auto pairs, ParsePairs("--cron-field", cron_fields_));
  v1::CronFields* message = schedule.mutable_cron_fields();
  for (const auto& [name, value] : pairs) {
    const std::string path = absl::AsciiStrToLower(EnumName(name));
    const auto* field = v1::CronFields::descriptor()->FindFieldByName(path);
    if (field == nullptr) {
      return NoSuchValue("--cron-field", name,
                         "month, day-of-month, day-of-week, hour, minute, second, year");
    }
    v1::CronFields::GetReflection()->SetString(message, field, value);
    fields.push_back(absl::StrCat("cron_fields.", path));
  }
  return absl::OkStatus();
}

absl::Status TimingFlags::ApplyWhen(absl::Time now, v1::Schedule& schedule, Fields& fields) const {
  const bool calendar = !cron_.empty() || !cron_fields_.empty();
  const bool interval = !every_.empty() || !anchor_.empty();
  const int ways = !cron_.empty() + !cron_fields_.empty() + interval + !at_.empty();
  if (ways > 1)
    return absl::InvalidArgumentError("give only one of --cron, --cron-field, --every and --at");
  if (calendar || interval) schedule.clear_times();
  if (!cron_.empty()) {
    schedule.set_cron(cron_);
    fields.push_back("cron");
  }
  if (!cron_fields_.empty()) {
    RETURN_IF_ERROR(ApplyCronFields(schedule, fields));
  }
  if (!every_.empty()) {
    ASSIGN_OR_RETURN(auto every, ParseDurationFlag("--every", every_));
    *schedule.mutable_interval()->mutable_every() = every;
    fields.push_back("interval.every");
  }
  if (!anchor_.empty()) {
    ASSIGN_OR_RETURN(auto anchor, ParseTimeFlag("--anchor", anchor_, now));
    *schedule.mutable_interval()->mutable_anchor_time() = anchor;
    fields.push_back("interval.anchor_time");
  }
  if (at_.empty()) return absl::OkStatus();
  schedule.clear_when();
  schedule.clear_times();
  for (const std::string& text : at_) {
    ASSIGN_OR_RETURN(auto time, ParseTimeFlag("--at", text, now));
    *schedule.add_times() = time;
  }
  fields.push_back("times");
  return absl::OkStatus();
}

absl::Status TimingFlags::ApplyRange(absl::Time now, v1::Schedule& schedule, Fields& fields) const {
  if (start_.has_value()) {
    schedule.clear_start_time();
    if (!start_->empty()) {
      ASSIGN_OR_RETURN(auto time, ParseTimeFlag("--start", *start_, now));
      *schedule.mutable_start_time() = time;
    }
    fields.push_back("start_time");
  }
  if (end_.has_value()) {
    schedule.clear_end_time();
    if (!end_->empty()) {
      ASSIGN_OR_RETURN(auto time, ParseTimeFlag("--end", *end_, now));
      *schedule.mutable_end_time() = time;
    }
    fields.push_back("end_time");
  }
  if (exclusions_.empty()) return absl::OkStatus();
  schedule.clear_exclusions();
  if (!Clears(exclusions_)) {
    for (const std::string& exclusion : exclusions_) schedule.add_exclusions(exclusion);
  }
  fields.push_back("exclusions");
  return absl::OkStatus();
}

absl::Status TimingFlags::ApplyDst(v1::Schedule& schedule, Fields& fields) const {
  if (gap_.has_value()) {
    v1::DstPolicy::Gap::Policy gap;
    if (!v1::DstPolicy::Gap::Policy_Parse(EnumName(*gap_), &gap))
      return NoSuchValue("--gap", *gap_, "auto, skip, fire-after, shift");
    schedule.mutable_dst_policy()->set_gap(gap);
    fields.push_back("dst_policy.gap");
  }
  if (fold_.has_value()) {
    v1::DstPolicy::Overlap::Policy overlap;
    if (!v1::DstPolicy::Overlap::Policy_Parse(EnumName(*fold_), &overlap))
      return NoSuchValue("--fold", *fold_, "auto, first, last, both");
    schedule.mutable_dst_policy()->set_overlap(overlap);
    fields.push_back("dst_policy.overlap");
  }
  return absl::OkStatus();
}

absl::Status TimingFlags::ApplyCalendar(v1::Schedule& schedule, Fields& fields) const {
  if (calendar_.has_value()) {
    schedule.set_calendar(*calendar_);
    fields.push_back("calendar");
  }
  if (!on_excluded_.has_value()) return absl::OkStatus();
  v1::OnExcluded::Rule rule;
  if (!v1::OnExcluded::Rule_Parse(EnumName(*on_excluded_), &rule))
    return NoSuchValue("--on-excluded", *on_excluded_, "skip, next, previous");
  schedule.set_on_excluded(rule);
  fields.push_back("on_excluded");
  return absl::OkStatus();
}

absl::Status TimingFlags::ApplyMisfire(v1::Schedule& schedule, Fields& fields) const {
  if (misfire_.has_value()) {
    v1::MisfirePolicy::Action action;
    if (!v1::MisfirePolicy::Action_Parse(EnumName(*misfire_), &action))
      return NoSuchValue("--misfire", *misfire_, "fire-all, fire-latest, skip");
    schedule.mutable_misfire_policy()->set_action(action);
    fields.push_back("misfire_policy.action");
  }
  if (!misfire_threshold_.empty()) {
    ASSIGN_OR_RETURN(auto threshold, ParseDurationFlag("--misfire-threshold", misfire_threshold_));
    *schedule.mutable_misfire_policy()->mutable_threshold() = threshold;
    fields.push_back("misfire_policy.threshold");
  }
  if (misfire_max_age_.has_value()) {
    if (!misfire_max_age_->empty()) {
      ASSIGN_OR_RETURN(auto max_age, ParseDurationFlag("--misfire-max-age", *misfire_max_age_));
      *schedule.mutable_misfire_policy()->mutable_max_age() = max_age;
    }
    fields.push_back("misfire_policy.max_age");
  }
  if (max_catch_up_.has_value()) {
    schedule.mutable_misfire_policy()->set_max_catch_up(*max_catch_up_);
    fields.push_back("misfire_policy.max_catch_up");
  }
  return absl::OkStatus();
}

absl::Status TimingFlags::ApplyOthers(v1::Schedule& schedule, Fields& fields) const {
  RETURN_IF_ERROR(ApplyCalendar(schedule, fields));
  if (!time_zone_.empty()) {
    schedule.set_time_zone(time_zone_);
    fields.push_back("time_zone");
  }
  if (max_runs_.has_value()) {
    schedule.set_max_runs(*max_runs_);
    fields.push_back("max_runs");
  }
  if (jitter_.has_value()) {
    schedule.clear_jitter();
    if (!jitter_->empty()) {
      ASSIGN_OR_RETURN(auto jitter, ParseDurationFlag("--jitter", *jitter_));
      *schedule.mutable_jitter() = jitter;
    }
    fields.push_back("jitter");
  }
  if (!overlap_.has_value()) return absl::OkStatus();
  v1::Schedule::OverlapPolicy overlap;
  if (!v1::Schedule::OverlapPolicy_Parse(EnumName(*overlap_), &overlap))
    return NoSuchValue("--overlap", *overlap_, "allow, skip, buffer-one, cancel-previous");
  schedule.set_overlap_policy(overlap);
  fields.push_back("overlap_policy");
  return absl::OkStatus();
}

absl::Status TimingFlags::Apply(absl::Time now, v1::Schedule& schedule, Fields& fields) const {
  absl::Status status = ApplyWhen(now, schedule, fields);
  if (status.ok()) status = ApplyRange(now, schedule, fields);
  if (status.ok()) status = ApplyDst(schedule, fields);
  if (status.ok()) status = ApplyMisfire(schedule, fields);
  if (status.ok()) status = ApplyOthers(schedule, fields);
  return status;
}

absl::Status TimingFlags::Apply(absl::Time now, v1::PreviewScheduleRequest& request) const {
  v1::Schedule schedule;
  Fields fields;
  RETURN_IF_ERROR(Apply(now, schedule, fields));
  if (schedule.has_cron()) request.set_cron(schedule.cron());
  if (schedule.has_cron_fields()) *request.mutable_cron_fields() = schedule.cron_fields();
  if (schedule.has_interval()) *request.mutable_interval() = schedule.interval();
  *request.mutable_times() = schedule.times();
  request.set_time_zone(schedule.time_zone());
  if (schedule.has_dst_policy()) *request.mutable_dst_policy() = schedule.dst_policy();
  if (schedule.has_start_time()) *request.mutable_schedule_start_time() = schedule.start_time();
  if (schedule.has_end_time()) *request.mutable_schedule_end_time() = schedule.end_time();
  *request.mutable_exclusions() = schedule.exclusions();
  request.set_calendar(schedule.calendar());
  request.set_on_excluded(schedule.on_excluded());
  return absl::OkStatus();
}

absl::StatusOr<google::protobuf::Timestamp> ParseTimeFlag(const std::string& flag,
                                                          const std::string& text, absl::Time now) {
  using google::protobuf::util::TimeUtil;
  // With larger values TimeUtil ends the process. The server knows the true bounds.
  constexpr absl::Duration kOffsetMax = absl::Hours(24 * 366 * 1000);
  google::protobuf::Timestamp time;
  absl::Duration offset;
  const bool relative = absl::StartsWith(text, "+") || absl::StartsWith(text, "-");
  if (text == "now" || (relative && absl::ParseDuration(text, &offset) && offset < kOffsetMax &&
                        offset > -kOffsetMax)) {
    return TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(now + offset));
  }
  if (!relative && TimeUtil::FromString(text, &time)) return time;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", text, "' is not a time such as 2026-12-01T08:00:00Z, now or +90s"));
}

}  // namespace escapement::escctl
