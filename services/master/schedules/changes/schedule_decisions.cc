#include "services/master/schedules/changes/schedule_decisions.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/timetable.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "google/protobuf/empty.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/calendar_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/request_table.h"
#include "services/master/schedules/changes/change_builder.h"
#include "services/master/schedules/changes/schedule_warnings.h"

namespace escapement::master {

absl::Status CheckCurrent(const ChangeInput& input, const std::string& etag) {
  if (!input.snapshot.record.has_value()) return NotFound(input.name.ToString());
  return CheckEtag(etag, Etag(input.snapshot.record->uid(), input.snapshot.state),
                   input.name.ToString());
}

absl::Status CheckEnabled(const ChangeInput& input) {
  const ScheduleSnapshot& snapshot = input.snapshot;
  storage::v1::ScheduleStateKind kind = snapshot.state.kind();
  if (kind == storage::v1::SCHEDULE_STATE_KIND_ENABLED) {
    if (NextTime(snapshot.state, *snapshot.definition, input.now).has_value())
      return absl::OkStatus();
    kind = storage::v1::SCHEDULE_STATE_KIND_FINISHED;
  }
  return WrongState(input.name.ToString(), StateName(kind), "ENABLED");
}

storage::v1::StateRecord NextState(const ChangeInput& input) {
  storage::v1::StateRecord state = input.snapshot.state;
  state.set_tenant(input.name.tenant);
  state.set_schedule_id(input.name.schedule);
  return state;
}

v1::Schedule ShownAfter(const ChangeInput& input, const storage::v1::ScheduleRecord& record,
                        storage::v1::StateRecord state, const Definition& definition) {
  state.set_change_count(input.snapshot.state.change_count() + 1);
  return ShowSchedule({record, state, definition.record}, NextTime(state, definition, input.now));
}

Decision ToDecision(ChangeBuilder& builder, std::unique_ptr<google::protobuf::Message> response) {
  Decision decision;
  decision.group = std::move(builder.group());
  decision.response = std::move(response);
  decision.occurrences = builder.occurrences();
  return decision;
}

namespace {

using storage::v1::SCHEDULE_STATE_KIND_DELETED;
using storage::v1::SCHEDULE_STATE_KIND_ENABLED;
using storage::v1::SCHEDULE_STATE_KIND_PAUSED;

std::set<std::string> PoliciesOf(const Definition& definition) {
  return PolicyIdsOf(definition.record.throttle());
}

// Decision.policies.
std::map<std::string, std::string> PolicyFieldsOf(const Definition& definition) {
  const std::vector<storage::v1::LimitRecord> limits = LimitsOf(definition.record.throttle());
  std::map<std::string, std::string> fields;
  for (size_t i = 0; i < limits.size(); ++i)
    fields.emplace(limits[i].policy_id(), PolicyField("schedule", definition.limits_listed, i));
  return fields;
}

// Fills in what its policies say, once they have been read.
absl::Status FillPolicies(const ChangeInput& input, Definition& definition) {
  if (input.snapshot.policies.empty()) return absl::OkStatus();
  return FillThrottle(input.snapshot.policies, input.layout.policy_shards, definition);
}

// True if an update makes events hold tokens of a policy until the consumer gives them back, and
// does not say so itself.
bool HoldsTokensUnasked(const v1::Schedule& patch, const Definition& before,
                        const Definition& next) {
  const storage::v1::ThrottleRecord& throttle = next.record.throttle();
  if (!throttle.on_release() || throttle.policy_id().empty()) return false;
  if (patch.completion() != v1::COMPLETION_UNSPECIFIED) return false;
  return PoliciesOf(before) != PoliciesOf(next) || !before.record.throttle().on_release();
}

// Fills in times that DraftOf could not know.
absl::Status FillTimes(absl::Time schedule_create_time, Definition& definition) {
  if (!definition.anchor_missing) return absl::OkStatus();
  FillAnchor(definition, schedule_create_time);
  return CheckFires(definition);
}

const std::string& CalendarOf(const Definition& definition) {
  return definition.record.timing().calendar().calendar_id();
}

// True if both fire at the same times, apart from max_runs, jitter and the days of a calendar.
bool SameTimesBesideDays(const storage::v1::DefinitionRecord& a,
                         const storage::v1::DefinitionRecord& b) {
  const auto times = [](const storage::v1::DefinitionRecord& record) {
    storage::v1::TimingRecord timing = record.timing();
    timing.clear_max_runs();
    timing.clear_jitter_micros();
    if (timing.has_calendar()) timing.mutable_calendar()->clear_days();
    return timing.SerializeAsString();
  };
  return a.cron() == b.cron() && a.time_zone() == b.time_zone() && times(a) == times(b);
}

// Fills in the days of its calendar, once that has been read. `before`: null for a new schedule. An
// update that leaves the times as they are is not refused for what a change of the calendar has
// made of them.
absl::Status FillCalendar(const ChangeInput& input, const storage::v1::DefinitionRecord* before,
                          Definition& definition) {
  if (CalendarOf(definition).empty() || !input.snapshot.calendars.has_value())
    return absl::OkStatus();
  if (before != nullptr && SameTimesBesideDays(*before, definition.record))
    return SetCalendarDays(*input.snapshot.calendars, kRetimedChildrenBytesMax, definition);
  RETURN_IF_ERROR(
      SetCalendarDays(*input.snapshot.calendars, kCalendarChildrenBytesMax, definition));
  return CheckFires(definition);
}

void CompleteDefinition(const ChangeInput& input, uint64_t version, Definition& definition) {
  definition.record.set_tenant(input.name.tenant);
  definition.record.set_schedule_id(input.name.schedule);
  definition.record.set_uid(std::string(input.snapshot.uid.bytes()));
  definition.record.set_version(version);
  definition.record.set_create_time_micros(ToMicros(input.now));
}

bool Enabled(const ScheduleSnapshot& snapshot) {
  return snapshot.state.kind() == SCHEDULE_STATE_KIND_ENABLED;
}

// More rows are parked than one commit takes: a delete that has begun ends them part by part.
absl::StatusOr<Decision> SkipFirstParked(const ChangeInput& input, ChangeBuilder& builder) {
  for (const ParkedRow& parked : input.snapshot.parked)
    RETURN_IF_ERROR(builder.SkipParked(parked, "deleted"));
  builder.PutRunParts();
  Decision decision = ToDecision(builder, std::make_unique<google::protobuf::Empty>());
  decision.partial = true;
  return decision;
}

// True if both fire at the same times from `begin` to `end`, apart from max_runs and jitter. False
// also if that takes too long to find out.
bool SameTimes(const Definition& a, const Definition& b, absl::Time begin, absl::Time end) {
  if (!SameTimesBesideDays(a.record, b.record)) return false;
  const auto days = [](const Definition& definition) {
    return definition.record.timing().calendar().days().SerializeAsString();
  };
  if (days(a) == days(b)) return true;
  const auto occurrences = a.timetable.Enumerate(begin, end, kPauseComparedMax);
  return occurrences.size() < kPauseComparedMax &&
         occurrences == b.timetable.Enumerate(begin, end, kPauseComparedMax);
}

// Ends a version that is replaced while the schedule is paused. Its occurrences until now that were
// never emitted are skipped. The pause starts again for the next version, which fires no earlier
// occurrence. Emitted occurrences that the next version has, too, count as fired, because a resume
// cannot tell them apart. `former` is without the end of max_runs.
absl::Status EndPausedVersion(const ChangeInput& input, const Definition& former,
                              const Definition& next, ChangeBuilder& builder,
                              storage::v1::StateRecord& state) {
  const absl::Time begin = FromMicros(state.pause_time_micros());
  const uint64_t max_runs = former.record.timing().max_runs();
  const bool finished = max_runs > 0 && state.runs_used() >= max_runs;
  const cron::Timetable& timetable =
      finished ? input.snapshot.definition->timetable : former.timetable;
  cron::MisfirePolicy policy = MisfirePolicyOf(former.record.misfire());
  policy.action = cron::MisfireAction::kSkip;
  policy.threshold = absl::ZeroDuration();
  const absl::Time covered = std::clamp(builder.covered(), std::min(begin, input.now), input.now);
  RETURN_IF_ERROR(builder.EmitMissed(
      former,
      SplitMissed(timetable, cron::PlanMissed(timetable, policy, covered, input.now), covered,
                  input.now, /*fire_max=*/0),
      "paused"));
  if (max_runs > 0 && begin < covered) {
    uint64_t used = state.runs_used();
    for (const cron::Occurrence& occurrence : timetable.Enumerate(begin, covered, kMaxRunsMax))
      used += next.timetable.Has(timetable.IdOf(occurrence), occurrence.instant);
    state.set_runs_used(std::min(used, max_runs));
  }
  state.set_pause_time_micros(ToMicros(input.now));
  state.set_covered_to_micros(ToMicros(std::max(builder.covered(), input.now)));
  return absl::OkStatus();
}

// Keeps what a resume relies on: every occurrence of the definition in [pause_time, covered_to) has
// its rows, also beyond the end of max_runs, since that end may still move.
absl::Status UpdatePaused(const ChangeInput& input, ChangeBuilder& builder, Definition& next,
                          storage::v1::StateRecord& state) {
  ASSIGN_OR_RETURN(Definition former, LoadDefinition(input.snapshot.definition->record));
  RETURN_IF_ERROR(builder.EmitAdded(former, next));
  if (!SameTimes(former, next, FromMicros(state.pause_time_micros()), input.now))
    RETURN_IF_ERROR(EndPausedVersion(input, former, next, builder, state));
  const absl::Time paused_at = FromMicros(state.pause_time_micros());
  LimitRuns(RunsUsedAt(state, former, input.now), paused_at, paused_at, next, state);
  return absl::OkStatus();
}

// Replaces the present version by `next`, which is complete.
absl::Status ReplaceVersion(const ChangeInput& input, const storage::v1::ScheduleRecord& record,
                            Definition& next, storage::v1::StateRecord& state,
                            ChangeBuilder& builder) {
  const ScheduleSnapshot& snapshot = input.snapshot;
  state.set_version(next.record.version());
  if (snapshot.state.kind() == SCHEDULE_STATE_KIND_PAUSED) {
    RETURN_IF_ERROR(UpdatePaused(input, builder, next, state));
  } else {
    next.record.set_former_finish_micros(snapshot.state.finish_micros());
    state.set_kind(SCHEDULE_STATE_KIND_ENABLED);
    state.set_covered_to_micros(ToMicros(builder.from()));
    LimitRuns(RunsUsedAt(snapshot.state, *snapshot.definition, input.now), input.now,
              builder.from(), next, state);
    RETURN_IF_ERROR(builder.EmitOwed(*snapshot.definition));
    builder.DeleteChildren(*snapshot.definition);
    RETURN_IF_ERROR(builder.EmitAdded(*snapshot.definition, next));
    RETURN_IF_ERROR(builder.EmitUpcoming(next));
    builder.PutChildren(next);
  }
  builder.PutSchedule(record);
  builder.PutDefinition(next);
  builder.PutState(state);
  builder.ChangePolicies(PoliciesOf(*snapshot.definition), PoliciesOf(next));
  builder.ChangeCalendar(CalendarOf(*snapshot.definition), CalendarOf(next));
  return absl::OkStatus();
}

// The answer of Create and Update. `holds_unasked`: HoldsTokensUnasked.
std::unique_ptr<google::protobuf::Message> AnswerOf(const ChangeInput& input,
                                                    const storage::v1::ScheduleRecord& record,
                                                    const storage::v1::StateRecord& state,
                                                    const Definition& definition,
                                                    bool holds_unasked) {
  auto schedule = std::make_unique<v1::Schedule>(ShownAfter(input, record, state, definition));
  for (std::string& warning : WarningsOf(definition, input.now))
    *schedule->add_warnings() = std::move(warning);
  if (holds_unasked && !input.snapshot.policies.empty()) {
    const std::string& first = definition.record.throttle().policy_id();
    *schedule->add_warnings() = TokensMustComeBack(*input.snapshot.policies.at(first));
  }
  return schedule;
}

}  // namespace

absl::StatusOr<Decision> DecideCreate(const ChangeInput& input, const ScheduleDraft& draft) {
  if (input.snapshot.record.has_value()) return AlreadyExists(input.name.ToString());
  ChangeBuilder builder(input.snapshot, input.name, input.layout, input.now);
  Definition definition = draft.definition;
  RETURN_IF_ERROR(SealSecrets(input.secrets, input.name.tenant, nullptr, definition.record));
  CompleteDefinition(input, 1, definition);
  RETURN_IF_ERROR(FillPolicies(input, definition));
  RETURN_IF_ERROR(FillTimes(input.now, definition));
  RETURN_IF_ERROR(FillCalendar(input, nullptr, definition));
  RETURN_IF_ERROR(CheckFiresAfter(definition, input.now));
  storage::v1::ScheduleRecord record = draft.record;
  record.set_uid(std::string(input.snapshot.uid.bytes()));
  record.set_create_time_micros(ToMicros(input.now));
  record.set_update_time_micros(ToMicros(input.now));
  storage::v1::StateRecord state = NextState(input);
  state.set_kind(SCHEDULE_STATE_KIND_ENABLED);
  state.set_version(1);
  state.set_covered_to_micros(ToMicros(builder.from()));
  LimitRuns(/*used=*/0, builder.covered(), builder.from(), definition, state);
  RETURN_IF_ERROR(builder.EmitUpcoming(definition));
  builder.PutSchedule(record);
  builder.PutDefinition(definition);
  builder.PutChildren(definition);
  builder.PutState(state);
  builder.ChangePolicies({}, PoliciesOf(definition));
  builder.ChangeCalendar("", CalendarOf(definition));
  const bool holds_unasked =
      definition.completion_missing && definition.record.throttle().on_release();
  Decision decision =
      ToDecision(builder, AnswerOf(input, record, state, definition, holds_unasked));
  decision.policies = PolicyFieldsOf(definition);
  decision.calendar = CalendarOf(definition);
  return decision;
}

absl::StatusOr<Decision> DecideUpdate(const ChangeInput& input,
                                      const v1::UpdateScheduleRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.schedule().etag()));
  const ScheduleSnapshot& snapshot = input.snapshot;
  v1::Schedule current =
      ShowSchedule({*snapshot.record, snapshot.state, snapshot.definition->record}, std::nullopt);
  ASSIGN_OR_RETURN(v1::Schedule wanted,
                   ApplyMask(current, request.schedule(), request.update_mask()));
  const bool limited = NamedLimits(wanted).any();
  if (limited != NamedLimits(current).any()) {
    ForgetDefaultCompletion(current);
    if (!limited) current.clear_policy_key();
    ASSIGN_OR_RETURN(wanted, ApplyMask(current, request.schedule(), request.update_mask()));
  }
  ASSIGN_OR_RETURN(ScheduleDraft draft, DraftOf(wanted, input.name.tenant));

  ChangeBuilder builder(snapshot, input.name, input.layout, input.now);
  Definition& next = draft.definition;
  RETURN_IF_ERROR(
      SealSecrets(input.secrets, input.name.tenant, &snapshot.definition->record, next.record));
  CompleteDefinition(input, snapshot.state.version() + 1, next);
  RETURN_IF_ERROR(FillPolicies(input, next));
  RETURN_IF_ERROR(FillTimes(FromMicros(snapshot.record->create_time_micros()), next));
  RETURN_IF_ERROR(FillCalendar(input, &snapshot.definition->record, next));
  storage::v1::ScheduleRecord record = draft.record;
  record.set_uid(snapshot.record->uid());
  record.set_create_time_micros(snapshot.record->create_time_micros());
  record.set_update_time_micros(ToMicros(input.now));
  storage::v1::StateRecord state = NextState(input);
  RETURN_IF_ERROR(ReplaceVersion(input, record, next, state, builder));
  const bool holds_unasked = HoldsTokensUnasked(request.schedule(), *snapshot.definition, next);
  Decision decision = ToDecision(builder, AnswerOf(input, record, state, next, holds_unasked));
  decision.policies = PolicyFieldsOf(next);
  decision.calendar = CalendarOf(next);
  return decision;
}

absl::StatusOr<Decision> DecideRetime(const ChangeInput& input, const Caller& caller) {
  const ScheduleSnapshot& snapshot = input.snapshot;
  if (!snapshot.record.has_value() || CalendarOf(*snapshot.definition).empty())
    return absl::CancelledError("the schedule names no calendar");
  Decision named;
  named.calendar = CalendarOf(*snapshot.definition);
  if (!snapshot.calendars.has_value()) return named;
  // Without the end of max_runs, which the new days may move.
  ASSIGN_OR_RETURN(Definition next, LoadDefinition(snapshot.definition->record));
  const std::string former_days = next.record.timing().calendar().days().SerializeAsString();
  RETURN_IF_ERROR(SetCalendarDays(*snapshot.calendars, kRetimedChildrenBytesMax, next));
  if (next.record.timing().calendar().days().SerializeAsString() == former_days)
    return absl::CancelledError("the schedule has the days already");
  ChangeBuilder builder(snapshot, input.name, input.layout, input.now);
  CompleteDefinition(input, snapshot.state.version() + 1, next);
  next.record.clear_former_finish_micros();
  storage::v1::ScheduleRecord record = *snapshot.record;
  record.set_update_time_micros(ToMicros(input.now));
  storage::v1::StateRecord state = NextState(input);
  RETURN_IF_ERROR(ReplaceVersion(input, record, next, state, builder));
  Decision decision =
      ToDecision(builder, std::make_unique<v1::Schedule>(ShownAfter(input, record, state, next)));
  decision.calendar = named.calendar;
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(input.name.ToString());
  update.mutable_schedule()->set_calendar(
      CalendarName{input.name.tenant, named.calendar}.ToString());
  update.mutable_update_mask()->add_paths("calendar");
  RequestMark(input.name.tenant, "UpdateSchedule", "", update, caller)
      .AddTo(*decision.response, input.now, snapshot.state.version(), decision.group);
  return decision;
}

absl::StatusOr<Decision> DecidePause(const ChangeInput& input,
                                     const v1::PauseScheduleRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  const ScheduleSnapshot& snapshot = input.snapshot;
  RETURN_IF_ERROR(CheckEnabled(input));
  ChangeBuilder builder(snapshot, input.name, input.layout, input.now);
  RETURN_IF_ERROR(builder.EmitOwed(*snapshot.definition));
  builder.DeleteChildren(*snapshot.definition);
  storage::v1::StateRecord state = NextState(input);
  state.set_kind(SCHEDULE_STATE_KIND_PAUSED);
  state.set_pause_reason(request.reason());
  state.set_pause_time_micros(ToMicros(input.now));
  // covered_to must not be planned_to: the emitter will no longer emit what it has planned and not
  // emitted. Nor may it be beyond the finish, which moves if fewer occurrences fire; there are no
  // rows behind it.
  const absl::Time covered = std::min(builder.covered(), FinishOf(snapshot.state));
  state.set_covered_to_micros(ToMicros(std::max(builder.now(), covered)));
  state.set_runs_used(RunsUsedAt(snapshot.state, *snapshot.definition, input.now));
  builder.PutState(state);
  return ToDecision(builder, std::make_unique<v1::Schedule>(
                                 ShownAfter(input, *snapshot.record, state, *snapshot.definition)));
}

absl::StatusOr<Decision> DecideDelete(const ChangeInput& input,
                                      const v1::DeleteScheduleRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  const ScheduleSnapshot& snapshot = input.snapshot;
  ChangeBuilder builder(snapshot, input.name, input.layout, input.now);
  if (snapshot.parked_more) return SkipFirstParked(input, builder);
  if (Enabled(snapshot)) {
    RETURN_IF_ERROR(builder.EmitOwed(*snapshot.definition));
    builder.DeleteChildren(*snapshot.definition);
  }
  if (snapshot.state.kind() == SCHEDULE_STATE_KIND_PAUSED) builder.GuardParked();
  for (const ParkedRow& parked : snapshot.parked)
    RETURN_IF_ERROR(builder.SkipParked(parked, "deleted"));
  builder.PutRunParts();
  builder.ChangePolicies(PoliciesOf(*snapshot.definition), {});
  builder.ChangeCalendar(CalendarOf(*snapshot.definition), "");
  storage::v1::StateRecord state = NextState(input);
  state.set_kind(SCHEDULE_STATE_KIND_DELETED);
  state.set_pause_time_micros(ToMicros(input.now));
  builder.DeleteSchedule();
  builder.PutState(state);
  return ToDecision(builder, std::make_unique<google::protobuf::Empty>());
}

absl::StatusOr<Decision> DecideTrigger(const ChangeInput& input,
                                       const v1::TriggerScheduleRequest& request) {
  RETURN_IF_ERROR(CheckCurrent(input, request.etag()));
  const ScheduleSnapshot& snapshot = input.snapshot;
  OccurrenceSource source = SourceOf(snapshot.definition->record);
  if (request.event_count() != 0) source.event_count = static_cast<uint64_t>(request.event_count());
  // ListRuns looks for active runs of one event where the schedule's own occurrences are queued. A
  // triggered one is elsewhere, so it has a record.
  source.run_kept = true;
  EmittedOccurrence occurrence;
  occurrence.id = cron::FormatInstantOccurrence(input.now);
  occurrence.nominal_time = occurrence.launch_time = input.now;
  occurrence.triggered = true;
  Decision decision;
  kv::Group& group = decision.group;
  // The state only: a run of its own neither hinders nor needs the emitter.
  group.conditions.push_back({.cf = kv::ColumnFamily::kStates,
                              .key = StateKey(snapshot.uid),
                              .kind = kv::Condition::Kind::kValueEquals,
                              .value = snapshot.state_bytes});
  AddOccurrenceRows(source, occurrence, input.layout, input.now, group.mutations);
  const auto not_done = [&](uint16_t shard, uint64_t first) -> kv::Condition {
    return {.cf = kv::ColumnFamily::kDone,
            .key = EncodeDoneKey({.shard = shard,
                                  .day = DoneDay(input.now),
                                  .uid = source.uid,
                                  .occurrence = occurrence.id,
                                  .first = first}),
            .kind = kv::Condition::Kind::kAbsent};
  };
  // The identity must be new: no row of it in the queue, no run, no Done record. (A row of many
  // waiting events has a run.)
  if (source.throttle.has_value() && source.event_count <= 1) {
    const std::string event_id = RunIdentity(source.tenant, source.uid, occurrence.id).EventId(0);
    group.conditions.push_back(not_done(ShardOfEventId(event_id, input.layout.queue_shards), 0));
  }
  for (const kv::Mutation& mutation : group.mutations) {
    group.conditions.push_back(
        {.cf = mutation.cf, .key = mutation.key, .kind = kv::Condition::Kind::kAbsent});
    const auto key =
        mutation.cf == kv::ColumnFamily::kEvents ? DecodeEventKey(mutation.key) : std::nullopt;
    if (key.has_value()) group.conditions.push_back(not_done(key->shard, key->first));
  }
  auto run = std::make_unique<v1::Run>();
  run->set_name(RunName{input.name, occurrence.id}.ToString());
  SetTimestamp(ToMicros(input.now), *run->mutable_nominal_time());
  run->set_event_count(static_cast<int64_t>(source.event_count));
  run->set_version(static_cast<int64_t>(source.version));
  run->set_state(v1::Run::ACTIVE);
  decision.response = std::move(run);
  decision.occurrences = 1;
  return decision;
}

}  // namespace escapement::master
