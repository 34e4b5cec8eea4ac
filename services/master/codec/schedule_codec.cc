#include "services/master/codec/schedule_codec.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/calendar_codec.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/codec/target_codec.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

// The field that says when it fires.
absl::string_view WhenField(const storage::v1::DefinitionRecord& record) {
  const storage::v1::TimingRecord& timing = record.timing();
  if (timing.has_cron_fields()) return "cron_fields";
  if (timing.has_interval()) return "interval";
  return timing.times_micros().empty() ? "cron" : "times";
}

bool Fires(cron::TimetableSpec spec) {
  // An interval's last instant may lie beyond the years in which exclusions match.
  if (!spec.cron.has_value()) spec.end = std::min(spec.end, absl::FromUnixSeconds(cron::kLocalEnd));
  return cron::Timetable(std::move(spec)).FirstAtOrAfter(absl::InfinitePast()).has_value();
}

}  // namespace

void FillAnchor(Definition& definition, absl::Time schedule_create_time) {
  if (!definition.anchor_missing) return;
  definition.anchor_missing = false;
  const int64_t anchor = ToMicros(schedule_create_time);
  definition.record.mutable_timing()->mutable_interval()->set_anchor_micros(anchor);
  cron::TimetableSpec spec = definition.timetable.spec();
  spec.anchor = FromMicros(anchor);
  definition.timetable = cron::Timetable(std::move(spec));
}

absl::Status CheckFires(const Definition& definition, const TimingFields& fields) {
  cron::TimetableSpec spec = definition.timetable.spec();
  if (Fires(spec)) return absl::OkStatus();
  const bool ends = spec.end != absl::InfiniteFuture();
  spec.days_off = nullptr;
  if (Fires(spec))
    return ImpossibleExpression(fields.Of("calendar"), "leaves no occurrence at all");
  spec.exclusions.clear();
  if (Fires(spec))
    return ImpossibleExpression(fields.Of("exclusions"), "leave no occurrence at all");
  spec.start = absl::InfinitePast();
  spec.end = absl::InfiniteFuture();
  if (Fires(spec)) {
    return ImpossibleExpression(fields.Of(ends ? fields.end_time : fields.start_time),
                                "leaves no occurrence at all");
  }
  return ImpossibleExpression(fields.Of(WhenField(definition.record)));
}

absl::Status CheckFiresAfter(const Definition& definition, absl::Time now,
                             const TimingFields& fields) {
  if (definition.timetable.FirstAfter(now).has_value()) return absl::OkStatus();
  if (!definition.record.timing().times_micros().empty())
    return InvalidField(fields.Of("times"), "must hold a time that has not passed");
  const bool ended = definition.timetable.spec().end <= now;
  return InvalidField(
      fields.Of(ended ? absl::string_view(fields.end_time) : WhenField(definition.record)),
      ended ? "has passed" : "every occurrence has passed");
}

absl::StatusOr<Definition> LoadDefinition(storage::v1::DefinitionRecord record) {
  absl::StatusOr<cron::Timetable> timetable = TimetableOf(record);
  if (!timetable.ok()) {
    return BrokenRecord(
        absl::StrCat("version ", record.version(), " of schedule ", record.schedule_id()));
  }
  Definition definition;
  definition.record = std::move(record);
  definition.timetable = *std::move(timetable);
  return definition;
}

namespace {

void ReadLabels(const v1::Schedule& schedule, storage::v1::ScheduleRecord& record,
                FieldViolations& violations) {
  CheckShownText("schedule.display_name", schedule.display_name(), kDisplayNameCharsMax,
                 violations);
  record.set_display_name(schedule.display_name());
  if (schedule.labels().size() > kLabelsMax) {
    violations.Add("schedule.labels", absl::StrCat("must hold at most ", kLabelsMax, " labels"));
    return;
  }
  const std::map<std::string, std::string> sorted(schedule.labels().begin(),
                                                  schedule.labels().end());
  for (const auto& [key, value] : sorted) {
    if (key.empty() || key.size() > kLabelBytesMax || value.size() > kLabelBytesMax) {
      violations.Add(absl::StrCat("schedule.labels[", key.substr(0, kLabelBytesMax), "]"),
                     absl::StrCat("key and value must have at most ", kLabelBytesMax,
                                  " bytes, the key at least 1"));
    } else if (HasControlCharacters(key) || HasControlCharacters(value)) {
      violations.Add("schedule.labels", "key and value must not hold control characters");
    }
    (*record.mutable_labels())[key] = value;
  }
}

// True: on_complete gets an event only for runs with failed or expired events.
bool ReadOnCompleteWhen(const v1::Schedule& schedule, FieldViolations& violations) {
  const v1::Schedule::OnCompleteWhen when = schedule.on_complete_when();
  if (when == v1::Schedule::ON_COMPLETE_WHEN_UNSPECIFIED) return false;
  if (!v1::Schedule::OnCompleteWhen_IsValid(when)) {
    violations.Add("schedule.on_complete_when", "must be ALWAYS or ON_FAILURE");
  } else if (!schedule.has_on_complete()) {
    violations.Add("schedule.on_complete_when", "needs on_complete");
  }
  return when == v1::Schedule::ON_FAILURE;
}

// Fields that only the server sets, and the name.
void KeepOutputOnly(const v1::Schedule& from, v1::Schedule& to) {
  to.set_name(from.name());
  to.set_state(from.state());
  to.set_uid(from.uid());
  to.set_version(from.version());
  to.set_etag(from.etag());
  to.set_pause_reason(from.pause_reason());
  *to.mutable_create_time() = from.create_time();
  *to.mutable_update_time() = from.update_time();
  to.clear_warnings();
  to.clear_next_time();
  if (from.has_next_time()) *to.mutable_next_time() = from.next_time();
}

// If the patch takes the calendar away, clears what is left of it.
void ForgetFormerCalendar(const v1::Schedule& patch, const google::protobuf::FieldMask& mask,
                          v1::Schedule& schedule) {
  if (HasPath(mask, "calendar") && patch.calendar().empty()) schedule.clear_on_excluded();
}

// If the patch sets new times, clears the other ways of setting times, and the DST policy, which
// only cron expressions have.
void ForgetFormerTimes(const v1::Schedule& patch, const google::protobuf::FieldMask& mask,
                       v1::Schedule& schedule) {
  std::set<std::string> named;
  for (const std::string& path : mask.paths()) named.insert(path.substr(0, path.find('.')));
  const google::protobuf::FieldMask set = SetFields(patch);
  std::string way;
  for (const std::string& field : set.paths()) {
    if (IsWhenField(field) && named.contains(field)) way = field;
  }
  if (way.empty()) return;
  // Fields that the mask names are left to the caller, whose merge sets or clears them.
  if (!named.contains("times") && way != "times") schedule.clear_times();
  if (way == "times") schedule.clear_when();
  const bool calendar = way == "cron" || way == "cron_fields";
  if (!calendar && !named.contains("dst_policy")) schedule.clear_dst_policy();
}

v1::Schedule::State ShowState(storage::v1::ScheduleStateKind kind) {
  switch (kind) {
    case storage::v1::SCHEDULE_STATE_KIND_ENABLED:
      return v1::Schedule::ENABLED;
    case storage::v1::SCHEDULE_STATE_KIND_PAUSED:
      return v1::Schedule::PAUSED;
    case storage::v1::SCHEDULE_STATE_KIND_FINISHED:
      return v1::Schedule::FINISHED;
    default:
      return v1::Schedule::STATE_UNSPECIFIED;
  }
}

}  // namespace

void CheckShownText(absl::string_view field, absl::string_view text, size_t chars_max,
                    FieldViolations& violations) {
  if (CharsOf(text) > chars_max)
    violations.Add(field, absl::StrCat("must have at most ", chars_max, " characters"));
  if (HasControlCharacters(text)) violations.Add(field, "must not hold control characters");
}

absl::StatusOr<ScheduleDraft> DraftOf(const v1::Schedule& schedule, absl::string_view tenant) {
  FieldViolations violations;
  ScheduleDraft draft;
  storage::v1::DefinitionRecord& record = draft.definition.record;
  ReadLabels(schedule, draft.record, violations);
  ReadTiming(schedule, draft.definition, violations);
  ReadCalendarUse(schedule, tenant, TimingFields(), draft.definition, violations);
  const int64_t count = schedule.event_count() == 0 ? 1 : schedule.event_count();
  if (count < 1 || count > kEventCountMax) {
    violations.Add("schedule.event_count", absl::StrCat("must be from 1 to ", kEventCountMax));
  }
  record.set_event_count(static_cast<uint64_t>(count));
  record.set_priority(ReadPriority(schedule, "schedule", violations));
  *record.mutable_delivery() = ReadDelivery(schedule, "schedule", violations);
  CheckPayload(schedule.payload(), "schedule.payload", violations);
  CheckPayloadFits(record.delivery(), schedule.payload(), "schedule.payload", violations);
  record.set_payload(schedule.payload());
  if (auto throttle = ReadThrottle(schedule, tenant, violations); throttle.has_value())
    *record.mutable_throttle() = *std::move(throttle);
  const NamedLimits limits(schedule);
  draft.definition.completion_missing =
      limits.any() && schedule.completion() == v1::COMPLETION_UNSPECIFIED;
  draft.definition.limits_listed = limits.listed();
  if (schedule.has_on_complete()) {
    *record.mutable_on_complete() =
        ReadDeliveryTo(schedule.on_complete(), "schedule.on_complete", violations);
  }
  record.set_on_complete_if_failed(ReadOnCompleteWhen(schedule, violations));
  if (!violations.empty()) return violations.ToStatus();
  if (!draft.definition.anchor_missing) {
    RETURN_IF_ERROR(CheckFires(draft.definition));
  }
  return draft;
}

absl::Status SealSecrets(const TargetSecrets& secrets, absl::string_view tenant,
                         const storage::v1::DefinitionRecord* before,
                         storage::v1::DefinitionRecord& definition) {
  FieldViolations violations;
  secrets.Seal(tenant, "schedule.target",
               before == nullptr ? nullptr : &before->delivery().target(),
               *definition.mutable_delivery()->mutable_target(), violations);
  if (definition.has_on_complete()) {
    const bool known = before != nullptr && before->has_on_complete();
    secrets.Seal(tenant, "schedule.on_complete", known ? &before->on_complete().target() : nullptr,
                 *definition.mutable_on_complete()->mutable_target(), violations);
  }
  return violations.ToStatus();
}

absl::StatusOr<v1::Schedule> ApplyMask(const v1::Schedule& current, const v1::Schedule& patch,
                                       const google::protobuf::FieldMask& mask) {
  ASSIGN_OR_RETURN(const google::protobuf::FieldMask fields, ReadUpdateMask(patch, mask));
  v1::Schedule result = patch;
  if (!ReplacesAll(fields)) {
    result = current;
    ForgetFormerTimes(patch, fields, result);
    ForgetFormerCalendar(patch, fields, result);
    ForgetFormerLimits(patch, fields, result);
    ReplaceFields(patch, fields, result);
    if (!result.has_on_complete() && !HasPath(fields, "on_complete_when"))
      result.clear_on_complete_when();
  }
  KeepOutputOnly(current, result);
  return result;
}

std::optional<absl::Time> NextTime(const storage::v1::StateRecord& state,
                                   const Definition& definition, absl::Time now) {
  if (state.kind() != storage::v1::SCHEDULE_STATE_KIND_ENABLED) return std::nullopt;
  const auto next = definition.timetable.FirstAfter(now);
  if (!next.has_value() || next->instant >= FinishOf(state)) return std::nullopt;
  return next->instant;
}

v1::Schedule ShowSchedule(const ShownSchedule& shown, std::optional<absl::Time> next) {
  const auto& [record, state, definition] = shown;
  v1::Schedule schedule;
  schedule.set_name(ScheduleName{state.tenant(), state.schedule_id()}.ToString());
  schedule.set_display_name(record.display_name());
  *schedule.mutable_labels() = record.labels();
  schedule.set_state(ShowState(state.kind()));
  if (schedule.state() == v1::Schedule::ENABLED && !next.has_value())
    schedule.set_state(v1::Schedule::FINISHED);
  WriteTiming(definition, schedule);
  WriteCalendarUse(definition, schedule);
  schedule.set_event_count(static_cast<int64_t>(definition.event_count()));
  schedule.set_priority(static_cast<int32_t>(definition.priority()));
  schedule.set_payload(definition.payload());
  WriteDelivery(definition.delivery(), schedule);
  WriteThrottle(definition, schedule);
  if (definition.has_on_complete()) {
    WriteTarget(definition.on_complete().target(), *schedule.mutable_on_complete());
    schedule.set_on_complete_when(definition.on_complete_if_failed() ? v1::Schedule::ON_FAILURE
                                                                     : v1::Schedule::ALWAYS);
  }
  schedule.set_uid(record.uid().size() == Uid::kBytes ? Uid::FromBytes(record.uid()).ToHex()
                                                      : std::string());
  schedule.set_version(static_cast<int64_t>(state.version()));
  schedule.set_etag(Etag(record.uid(), state));
  SetTimestamp(record.create_time_micros(), *schedule.mutable_create_time());
  SetTimestamp(record.update_time_micros(), *schedule.mutable_update_time());
  if (next.has_value()) SetTimestamp(ToMicros(*next), *schedule.mutable_next_time());
  schedule.set_pause_reason(state.pause_reason());
  return schedule;
}

void ShowCounts(const storage::v1::RunPartRecord& counts, v1::Schedule& schedule) {
  schedule.set_succeeded_count(static_cast<int64_t>(counts.succeeded()));
  schedule.set_failed_count(static_cast<int64_t>(counts.failed()));
  if (counts.last_end_time_micros() != 0)
    SetTimestamp(counts.last_end_time_micros(), *schedule.mutable_last_time());
  schedule.set_last_outcome(ShowOutcome(counts.last_outcome()));
}

std::string Etag(absl::string_view uid, const storage::v1::StateRecord& state) {
  return absl::StrCat("\"", state.version(), "-", state.change_count(), "-",
                      absl::Hex(static_cast<uint32_t>(StableHash64(uid)), absl::kZeroPad8), "\"");
}

absl::string_view StateName(storage::v1::ScheduleStateKind kind) {
  switch (kind) {
    case storage::v1::SCHEDULE_STATE_KIND_ENABLED:
      return "ENABLED";
    case storage::v1::SCHEDULE_STATE_KIND_PAUSED:
      return "PAUSED";
    case storage::v1::SCHEDULE_STATE_KIND_FINISHED:
      return "FINISHED";
    case storage::v1::SCHEDULE_STATE_KIND_DELETED:
      return "DELETED";
    default:
      return "UNSPECIFIED";
  }
}

}  // namespace escapement::master
