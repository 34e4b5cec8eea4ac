#include "services/master/schedules/changes/change_builder.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/cron/evaluator.h"
#include "common/cron/launch_expression.h"
#include "common/cron/timetable.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {

MissedSplit SplitMissed(const cron::Timetable& timetable, const cron::MisfirePlan& plan,
                        absl::Time begin, absl::Time end, size_t fire_max) {
  MissedSplit split;
  if (begin >= end) return split;
  const absl::Time fire_from = std::clamp(plan.fire_from, begin, end);
  absl::Time summary_to = std::clamp(plan.summary_to, begin, fire_from);
  split.fired = timetable.Enumerate(fire_from, end, fire_max + 1);
  split.cut = split.fired.size() > fire_max;
  if (split.cut) {
    split.fired = timetable.EnumerateLast(fire_from, end, fire_max);
    summary_to = split.fired.empty() ? end : split.fired.front().instant;
  } else {
    split.skipped = timetable.Enumerate(summary_to, fire_from, kMaxCatchUpMax);
  }
  const std::vector<cron::Occurrence> summary =
      timetable.Enumerate(begin, summary_to, kSummaryCountMax);
  if (summary.empty()) return split;
  split.summary_first = summary.front();
  split.summary_count = summary.size();
  if (summary.size() < kSummaryCountMax) {
    split.summary_last = summary.back().instant;
  } else {
    const std::vector<cron::Occurrence> last = timetable.EnumerateLast(begin, summary_to, 1);
    CHECK(!last.empty()) << "there is a first occurrence and no last one";
    split.summary_last = last.back().instant;
  }
  return split;
}

namespace {

using kv::ColumnFamily;
using ConditionKind = kv::Condition::Kind;
using MutationKind = kv::Mutation::Kind;

// Rows of a change without its occurrences: records of skipped occurrences, children, and the
// schedule's own rows.
constexpr size_t kRowsBesideOccurrences =
    kMaxCatchUpMax + cron::kChildrenMax + 2 * kLabelsMax + 100;
static_assert(kRowsBesideOccurrences < kChangeRowsMax / 2);

// One more than allowed tells that there are too many.
std::vector<cron::Occurrence> OccurrencesIn(const Definition& definition, absl::Time begin,
                                            absl::Time end) {
  if (begin >= end) return {};
  return definition.timetable.Enumerate(begin, end, kChangeOccurrencesMax + 1);
}

}  // namespace

absl::Time CoveredTo(const ScheduleSnapshot& snapshot, absl::Time now) {
  const absl::Time covered = FromMicros(snapshot.state.covered_to_micros());
  if (snapshot.state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED) return covered;
  return std::max(covered,
                  snapshot.emitted_to.has_value() ? DecodeCheckpoint(*snapshot.emitted_to) : now);
}

ChangeBuilder::ChangeBuilder(const ScheduleSnapshot& snapshot, const ScheduleName& name,
                             const kv::Layout& layout, absl::Time now)
    : snapshot_(snapshot),
      name_(name),
      layout_(layout),
      now_(now),
      planned_to_(now),
      covered_(now),
      parked_ends_(snapshot.run_parts, layout, now) {
  const std::string schedule_key = ScheduleKey(name.tenant, name.schedule);
  if (snapshot.record.has_value()) {
    group_.conditions.push_back(
        {.cf = ColumnFamily::kSchedules, .key = schedule_key, .kind = ConditionKind::kPresent});
    group_.conditions.push_back({.cf = ColumnFamily::kStates,
                                 .key = StateKey(snapshot.uid),
                                 .kind = ConditionKind::kValueEquals,
                                 .value = snapshot.state_bytes});
  } else {
    group_.conditions.push_back(
        {.cf = ColumnFamily::kSchedules, .key = schedule_key, .kind = ConditionKind::kAbsent});
  }
  const uint16_t partition = PartitionOf(snapshot.uid, layout.partitions);
  RequireCheckpoint(PlannedToKey(partition), snapshot.planned_to);
  RequireCheckpoint(EmittedToKey(partition), snapshot.emitted_to);
  group_.conditions.push_back({.cf = ColumnFamily::kCheckpoints,
                               .key = CursorKey(partition),
                               .kind = ConditionKind::kAbsent});
  if (snapshot.planned_to.has_value()) planned_to_ = DecodeCheckpoint(*snapshot.planned_to);
  // A new schedule fires strictly after its creation, as a preview shows it.
  covered_ = snapshot.record.has_value() ? CoveredTo(snapshot, now) : now + absl::Microseconds(1);
}

void ChangeBuilder::RequireCheckpoint(const std::string& key,
                                      const std::optional<std::string>& value) {
  group_.conditions.push_back(kv::Unchanged(ColumnFamily::kCheckpoints, key, value));
  if (value.has_value()) return;
  group_.mutations.push_back(
      {.cf = ColumnFamily::kCheckpoints, .key = key, .value = EncodeCheckpoint(now_)});
}

absl::Status ChangeBuilder::CheckRows() const {
  return group_.mutations.size() - parked_mutations_ > kChangeRowsMax
             ? EmissionBehind(name_.ToString())
             : absl::OkStatus();
}

void ChangeBuilder::EmitOne(const Definition& definition, const cron::Occurrence& occurrence) {
  const OccurrenceSource source = SourceOf(definition.record);
  AddOccurrenceRows(source, ToEmitted(source, definition.timetable, occurrence), layout_, now_,
                    group_.mutations);
  ++occurrences_;
}

absl::Status ChangeBuilder::Emit(const Definition& definition, absl::Time begin, absl::Time end) {
  for (const cron::Occurrence& occurrence : OccurrencesIn(definition, begin, end)) {
    EmitOne(definition, occurrence);
    RETURN_IF_ERROR(CheckRows());
  }
  return absl::OkStatus();
}

absl::Status ChangeBuilder::EmitOwed(const Definition& former) {
  if (covered_ >= now_) return absl::OkStatus();
  const cron::MisfirePlan plan =
      cron::PlanMissed(former.timetable, MisfirePolicyOf(former.record.misfire()), covered_, now_);
  const MissedSplit missed =
      SplitMissed(former.timetable, plan, covered_, now_, kChangeOccurrencesMax);
  if (missed.cut) return EmissionBehind(name_.ToString());
  return EmitMissed(former, missed, "misfire");
}

absl::Status ChangeBuilder::EmitMissed(const Definition& definition, const MissedSplit& missed,
                                       absl::string_view reason) {
  const OccurrenceSource source = SourceOf(definition.record);
  if (missed.summary_first.has_value()) {
    group_.mutations.push_back(
        SkippedOccurrences(source, ToEmitted(source, definition.timetable, *missed.summary_first),
                           missed.summary_count, missed.summary_last, reason, layout_, now_));
  }
  for (const cron::Occurrence& occurrence : missed.skipped) {
    group_.mutations.push_back(SkippedOccurrence(
        source, ToEmitted(source, definition.timetable, occurrence), reason, layout_, now_));
  }
  for (const cron::Occurrence& occurrence : missed.fired) {
    EmitOne(definition, occurrence);
    RETURN_IF_ERROR(CheckRows());
  }
  return CheckRows();
}

size_t ChangeBuilder::RoomBesideUpcoming(const Definition& definition) const {
  const size_t rows = group_.mutations.size() - parked_mutations_ + kRowsBesideOccurrences;
  if (rows >= kChangeRowsMax) return 0;
  const size_t room =
      (kChangeRowsMax - rows) / OccurrenceRowCount(SourceOf(definition.record), layout_);
  return room -
         std::min(room, OccurrencesIn(definition, std::max(now_, covered_), planned_to_).size());
}

absl::Status ChangeBuilder::EmitUpcoming(const Definition& next) {
  return Emit(next, std::max(now_, covered_), planned_to_);
}

absl::Status ChangeBuilder::EmitAdded(const Definition& former, const Definition& next) {
  std::set<std::string> known;
  for (const cron::Occurrence& occurrence : OccurrencesIn(former, now_, covered_)) {
    known.insert(former.timetable.IdOf(occurrence));
  }
  const std::vector<cron::Occurrence> wanted = OccurrencesIn(next, now_, covered_);
  if (known.size() > kChangeOccurrencesMax || wanted.size() > kChangeOccurrencesMax) {
    return EmissionBehind(name_.ToString());
  }
  for (const cron::Occurrence& occurrence : wanted) {
    const std::string id = next.timetable.IdOf(occurrence);
    if (known.contains(id)) continue;
    const size_t written_from = group_.mutations.size();
    EmitOne(next, occurrence);
    ForgetRunBefore(id, written_from);
  }
  return CheckRows();
}

void ChangeBuilder::ForgetRunBefore(const std::string& occurrence, size_t written_from) {
  const std::string key = EncodeRunKey({snapshot_.uid, occurrence});
  const auto written_anew = [&](const kv::Mutation& mutation) {
    return mutation.cf == ColumnFamily::kRuns && mutation.key == key;
  };
  if (std::any_of(group_.mutations.begin() + static_cast<ptrdiff_t>(written_from),
                  group_.mutations.end(), written_anew))
    return;
  group_.mutations.push_back(
      {.cf = ColumnFamily::kRuns, .kind = MutationKind::kDelete, .key = key});
  group_.mutations.push_back({.cf = ColumnFamily::kCheckpoints,
                              .kind = MutationKind::kDelete,
                              .key = ActiveRunKey(PartitionOf(snapshot_.uid, layout_.partitions),
                                                  snapshot_.uid, occurrence)});
}

void ChangeBuilder::PutChildren(const Definition& definition) {
  AddChildren(definition.record, definition.timetable, from(), layout_, group_.mutations);
}

void ChangeBuilder::DeleteChildren(const Definition& former) {
  RemoveChildren(former.timetable, snapshot_.uid, covered_, layout_, group_.mutations);
}

void ChangeBuilder::PutSchedule(const storage::v1::ScheduleRecord& record) {
  group_.mutations.push_back({.cf = ColumnFamily::kSchedules,
                              .key = ScheduleKey(name_.tenant, name_.schedule),
                              .value = record.SerializeAsString()});
  DeleteLabels(record);
  for (const auto& [key, value] : record.labels()) {
    group_.mutations.push_back(
        {.cf = ColumnFamily::kLabels, .key = LabelKey(name_.tenant, key, value, name_.schedule)});
  }
}

void ChangeBuilder::DeleteLabels(const storage::v1::ScheduleRecord& kept) {
  if (!snapshot_.record.has_value()) return;
  for (const auto& [key, value] : snapshot_.record->labels()) {
    const auto it = kept.labels().find(key);
    if (it != kept.labels().end() && it->second == value) continue;
    group_.mutations.push_back({.cf = ColumnFamily::kLabels,
                                .kind = MutationKind::kDelete,
                                .key = LabelKey(name_.tenant, key, value, name_.schedule)});
  }
}

void ChangeBuilder::DeleteSchedule() {
  DeleteLabels(storage::v1::ScheduleRecord());
  group_.mutations.push_back({.cf = ColumnFamily::kSchedules,
                              .kind = MutationKind::kDelete,
                              .key = ScheduleKey(name_.tenant, name_.schedule)});
  // By which its runs are found until their retention ends.
  group_.mutations.push_back({.cf = ColumnFamily::kSchedules,
                              .key = DeletedScheduleKey(name_.tenant, name_.schedule),
                              .value = snapshot_.record->SerializeAsString()});
}

void ChangeBuilder::PutDefinition(const Definition& definition) {
  group_.mutations.push_back({.cf = ColumnFamily::kDefinitions,
                              .key = DefinitionKey(snapshot_.uid, definition.record.version()),
                              .value = definition.record.SerializeAsString()});
}

void ChangeBuilder::PutState(storage::v1::StateRecord state) {
  state.set_change_count(snapshot_.state.change_count() + 1);
  group_.mutations.push_back({.cf = ColumnFamily::kStates,
                              .key = StateKey(snapshot_.uid),
                              .value = state.SerializeAsString()});
}

void ChangeBuilder::ChangePolicies(const std::set<std::string>& former,
                                   const std::set<std::string>& next) {
  const auto user_of = [&](const std::string& policy) {
    return PolicyUserKey(PolicyUid(name_.tenant, policy), snapshot_.uid);
  };
  for (const std::string& policy : former) {
    if (next.contains(policy)) continue;
    group_.mutations.push_back(
        {.cf = ColumnFamily::kPolicies, .kind = MutationKind::kDelete, .key = user_of(policy)});
  }
  for (const std::string& policy : next) {
    group_.conditions.push_back({.cf = ColumnFamily::kPolicies,
                                 .key = PolicyKey(name_.tenant, policy),
                                 .kind = ConditionKind::kPresent});
    group_.mutations.push_back({.cf = ColumnFamily::kPolicies, .key = user_of(policy)});
  }
}

void ChangeBuilder::ChangeCalendar(const std::string& former, const std::string& next) {
  const auto user_of = [&](const std::string& calendar) {
    return CalendarUserKey(CalendarUid(name_.tenant, calendar), snapshot_.uid);
  };
  if (!former.empty() && former != next)
    group_.mutations.push_back(kv::Delete(ColumnFamily::kPolicies, user_of(former)));
  if (next.empty()) return;
  group_.mutations.push_back(kv::Put(ColumnFamily::kPolicies, user_of(next), std::string()));
  if (!snapshot_.calendars.has_value()) return;  // a first decision
  for (const auto& [id, stored] : *snapshot_.calendars) {
    group_.conditions.push_back(
        kv::ValueIs(ColumnFamily::kPolicies, CalendarKey(name_.tenant, id), stored.bytes));
  }
}

void ChangeBuilder::GuardParked() {
  const std::string prefix = ParkedPrefix(snapshot_.uid);
  group_.conditions.push_back({.cf = ColumnFamily::kParked,
                               .key = prefix,
                               .kind = ConditionKind::kRangeCount,
                               .value = PrefixEnd(prefix),
                               .number = snapshot_.parked.size()});
}

void ChangeBuilder::ReturnParked(const ParkedRow& parked, const Definition& definition) {
  const size_t before = group_.mutations.size();
  group_.mutations.push_back(
      {.cf = ColumnFamily::kParked, .kind = MutationKind::kDelete, .key = parked.entry.key});
  const storage::v1::DefinitionRecord& wanted = definition.record;
  const bool same_place = parked.throttled() == wanted.has_throttle() &&
                          parked.row.throttle().policy_id() == wanted.throttle().policy_id();
  if (same_place) {
    group_.mutations.push_back(
        {.cf = parked.home.cf, .key = parked.home.key, .value = parked.entry.value});
  } else {
    AddMovedRow(SourceOf(wanted), parked.row, parked.occurrence, parked.first, parked.due_time,
                layout_, now_, group_.mutations);
  }
  parked_mutations_ += group_.mutations.size() - before;
}

absl::Status ChangeBuilder::SkipParked(const ParkedRow& parked, absl::string_view reason) {
  const size_t before = group_.mutations.size();
  const absl::Status status =
      parked_ends_.End(parked, storage::v1::OUTCOME_KIND_SKIPPED, reason, group_);
  parked_mutations_ += group_.mutations.size() - before;
  return status;
}

void ChangeBuilder::SkipLaunch(const WaitingLaunch& launch, absl::string_view reason) {
  const std::string key = EncodeLaunchKey(launch.key);
  group_.conditions.push_back({.cf = ColumnFamily::kCheckpoints,
                               .key = key,
                               .kind = ConditionKind::kValueEquals,
                               .value = launch.bytes});
  group_.conditions.push_back({.cf = ColumnFamily::kRuns,
                               .key = EncodeRunKey({launch.key.uid, launch.key.occurrence}),
                               .kind = ConditionKind::kAbsent});
  group_.mutations.push_back(
      {.cf = ColumnFamily::kCheckpoints, .kind = MutationKind::kDelete, .key = key});
  group_.mutations.push_back(SkippedOccurrence(SourceOf(launch.key.uid, launch.record),
                                               ToEmitted(launch.key, launch.record), reason,
                                               layout_, now_));
  parked_mutations_ += 2;
}

}  // namespace escapement::master
