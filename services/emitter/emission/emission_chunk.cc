#include "services/emitter/emission/emission_chunk.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "services/emitter/base/options.h"
#include "services/emitter/emission/emission_plan.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

constexpr absl::string_view kMisfire = "misfire";

// The state is as it was read, except for what cancels runs: these fields are the last on disk, and
// every other change increments change_count, which stands before them.
Condition StateAsRead(const Uid& uid, std::optional<std::string> value,
                      const storage::v1::StateRecord& state, kv::CommitSeq seq) {
  if (!value) return kv::Absent(ColumnFamily::kStates, StateKey(uid));
  Condition condition = kv::ValueIs(ColumnFamily::kStates, StateKey(uid), *std::move(value), seq);
  condition.kind = Condition::Kind::kValuePrefix;
  if (state.cancelled_before_micros() != 0 || !state.cancelled_runs().empty()) {
    storage::v1::StateRecord rest = state;
    rest.clear_cancelled_before_micros();
    rest.clear_cancelled_runs();
    condition.value = rest.SerializeAsString();
  }
  return condition;
}

// How many occurrences an earlier group has counted in a summary, and the last of them. nullopt:
// the record is none of a summary.
struct Counted {
  uint64_t occurrences = 0;
  absl::Time last = absl::InfinitePast();
};
std::optional<Counted> CountedIn(const std::optional<std::string>& value) {
  if (!value) return Counted();
  storage::v1::DoneRecord done;
  if (!done.ParseFromString(*value) || !done.run_skipped() || done.reason() != kMisfire)
    return std::nullopt;
  if (done.skipped_occurrences() == 0) return Counted{1, FromMicros(done.nominal_time_micros())};
  return Counted{done.skipped_occurrences(), FromMicros(done.last_nominal_time_micros())};
}

}  // namespace

struct EmissionChunk::Building {
  const DueSchedule& schedule;
  absl::Time now;         // store time
  bool fires;             // the children's version, as the state says
  absl::Time covered_to;  // before it everything has been emitted by a change
  kv::Group group;
  EmissionCounts counts;
  Counted summarised;
  std::optional<EmittedOccurrence> first_summarised;
};

EmissionChunk::EmissionChunk(Options options, std::shared_ptr<CatchUp> catch_up)
    : options_(std::move(options)),
      catch_up_(std::move(catch_up)),
      evaluator_(options_.begin, options_.end, options_.rules) {}

void EmissionChunk::Clear() {
  schedules_.clear();
  places_.clear();
  children_ = mutations_ = lists_to_plan_ = 0;
}

bool EmissionChunk::full() const {
  return children_ >= kChunkChildrenMax || mutations_ >= kChunkMutationsMax ||
         lists_to_plan_ >= kListsPlannedMax;
}

bool EmissionChunk::Room(size_t mutations) const {
  return empty() || (!full() && mutations_ + mutations <= kChunkMutationsMax);
}

absl::StatusOr<EmissionChunk::Added> EmissionChunk::Add(kv::Entry&& entry, kv::CommitSeq seq) {
  if (!record_.ParseFromString(entry.value)) return absl::DataLossError("the record of a child");
  DueChild child;
  child.seq = seq;
  if (const auto key = DecodeInstantChildKey(entry.key))
    return AddInstant(*key, std::move(entry), std::move(child));
  if (const auto key = DecodeChildKey(entry.key))
    return AddCalendar(*key, std::move(entry), std::move(child));
  return absl::DataLossError("the key of a child");
}

absl::StatusOr<EmissionChunk::Added> EmissionChunk::AddCalendar(const ChildKey& key,
                                                                kv::Entry&& entry,
                                                                DueChild&& child) {
  child.source = SourceOf(key.uid, record_);
  const int64_t end = record_.timing().end_micros();
  if (end != 0 && FromMicros(end) <= options_.begin) {
    if (!Room(1)) return Added::kNoRoom;
    child.expired = true;
    Take(std::move(entry), std::move(child), 1, key.expression.zone, nullptr);
    return Added::kDue;
  }
  ASSIGN_OR_RETURN(auto found, evaluator_.OfCalendar(key, record_, child.source));
  if (found.occurrences.empty()) return Added::kNothingDue;
  const size_t mutations =
      OccurrenceRowCount(child.source, options_.layout) * found.occurrences.size();
  if (!Room(mutations)) return Added::kNoRoom;
  child.occurrences = std::move(found.occurrences);
  child.owed_from = std::max(options_.begin, FromMicros(record_.from_micros()));
  Take(std::move(entry), std::move(child), mutations, key.expression.zone, found.timetable);
  return Added::kDue;
}

absl::StatusOr<EmissionChunk::Added> EmissionChunk::AddInstant(const InstantChildKey& key,
                                                               kv::Entry&& entry,
                                                               DueChild&& child) {
  child.source = SourceOf(key.uid, record_);
  child.instant = true;
  const size_t rows = OccurrenceRowCount(child.source, options_.layout);
  const size_t max = std::max<size_t>(1, kChunkMutationsMax / rows);
  ASSIGN_OR_RETURN(auto found, evaluator_.OfInstant(key, record_, child.source, max));
  const size_t mutations = 2 + rows * found.occurrences.size();
  if (!Room(mutations)) return Added::kNoRoom;
  if (found.next) {
    child.moved_key = EncodeInstantChildKey({key.partition, *found.next, key.uid});
  }
  const bool in_part = found.next && *found.next < options_.end;
  child.occurrences = std::move(found.occurrences);
  Take(std::move(entry), std::move(child), mutations, record_.time_zone(), found.timetable);
  return in_part ? Added::kDueInPart : Added::kDue;
}

void EmissionChunk::Take(kv::Entry&& entry, DueChild&& child, size_t mutations,
                         const std::string& zone, const cron::Timetable* timetable) {
  ++children_;
  mutations_ += mutations;
  const auto [it, fresh] =
      places_.try_emplace({child.source.uid, child.source.version}, schedules_.size());
  if (fresh) schedules_.emplace_back();
  DueSchedule& schedule = schedules_[it->second];
  schedule.uid = child.source.uid;
  schedule.children.push_back(std::move(child));
  schedule.children.back().entry = std::move(entry);
  if (timetable != nullptr) PlanLate(zone, *timetable, schedule);
}

void EmissionChunk::PlanLate(const std::string& zone, const cron::Timetable& timetable,
                             DueSchedule& schedule) {
  const cron::MisfirePolicy policy = MisfirePolicyOf(record_.misfire());
  if (!catch_up_->MayMiss(options_.begin, policy.threshold)) return;
  if (schedule.plan != nullptr || schedule.unplanned != nullptr) return;
  const absl::Time from = FromMicros(record_.from_micros());
  std::string key;
  if (OfList(record_)) {
    key = absl::StrCat(schedule.uid.bytes(), record_.version(), ",", record_.from_micros());
  } else {
    AppendTimetableKey(record_, zone, key);
    absl::StrAppend(&key, absl::string_view("\0", 1), record_.timing().start_micros(), ",",
                    record_.timing().end_micros(), ",", record_.misfire().action(), ",",
                    record_.misfire().threshold_micros(), ",", record_.misfire().max_catch_up(),
                    ",", record_.misfire().max_age_micros(), ",",
                    from > catch_up_->begin() ? record_.from_micros() : 0);
  }
  schedule.plan = catch_up_->Find(key);
  if (schedule.plan != nullptr) return;
  if (!OfList(record_)) {
    schedule.plan = catch_up_->Make(std::move(key), Bounded(timetable, record_), policy, from);
    return;
  }
  ++lists_to_plan_;
  schedule.unplanned = std::make_unique<UnplannedList>(UnplannedList{std::move(key), record_});
}

std::vector<kv::Key> EmissionChunk::DefinitionsToRead() const {
  std::vector<kv::Key> keys;
  for (const DueSchedule& schedule : schedules_) {
    if (schedule.unplanned == nullptr) continue;
    keys.push_back({ColumnFamily::kDefinitions,
                    DefinitionKey(schedule.uid, schedule.unplanned->child.version())});
  }
  return keys;
}

void EmissionChunk::SetDefinitions(const kv::GetResult& result) {
  size_t read = 0;
  for (DueSchedule& schedule : schedules_) {
    if (schedule.unplanned == nullptr) continue;
    const std::unique_ptr<UnplannedList> list = std::move(schedule.unplanned);
    const std::optional<std::string>& value = result.values[read++];
    storage::v1::DefinitionRecord definition;
    const auto of_child = TimetableOf(list->child, list->child.time_zone());
    // A definition that is not there is none that fires.
    if (!value || !definition.ParseFromString(*value) || !of_child.ok()) continue;
    cron::TimetableSpec spec = of_child->spec();
    for (const int64_t micros : definition.timing().times_micros())
      spec.times.push_back(FromMicros(micros));
    schedule.plan = catch_up_->Make(list->plan_key, cron::Timetable(std::move(spec)),
                                    MisfirePolicyOf(list->child.misfire()),
                                    FromMicros(list->child.from_micros()));
  }
  lists_to_plan_ = 0;
}

void EmissionChunk::FindSummary(const kv::Layout& layout, DueSchedule& schedule) {
  if (schedule.plan == nullptr || !schedule.plan->summary.has_value()) return;
  for (const DueChild& child : schedule.children) {
    for (const EmittedOccurrence& o : child.occurrences) {
      if (!schedule.plan->InSummary(o.nominal_time)) continue;
      schedule.summary = ToEmitted(child.source, schedule.plan->timetable, *schedule.plan->summary);
      schedule.summary_key =
          SkippedOccurrence(child.source, *schedule.summary, kMisfire, layout, absl::UnixEpoch())
              .key;
      return;
    }
  }
}

std::vector<kv::Key> EmissionChunk::StatesToRead() {
  std::vector<kv::Key> keys;
  keys.reserve(schedules_.size());
  for (const DueSchedule& schedule : schedules_)
    keys.push_back({ColumnFamily::kStates, StateKey(schedule.uid)});
  for (DueSchedule& schedule : schedules_) {
    FindSummary(options_.layout, schedule);
    if (!schedule.summary.has_value()) continue;
    schedule.summary_read = keys.size();
    keys.push_back({ColumnFamily::kDone, schedule.summary_key});
  }
  return keys;
}

// True if a time-zone rule change moved this occurrence before the child's normal range and nothing
// has been emitted under the new rules yet.
bool EmissionChunk::Moved(const DueChild& child, const EmittedOccurrence& occurrence,
                          const Building& building) const {
  return options_.rules != nullptr && !options_.rules->by_former &&
         occurrence.nominal_time < child.owed_from &&
         building.covered_to <= options_.rules->made_to();
}

void EmissionChunk::BuildOccurrences(const DueChild& child, Building& building) const {
  const LatePlan* plan = building.schedule.plan.get();
  EmissionCounts& counts = building.counts;
  for (const EmittedOccurrence& o : child.occurrences) {
    const bool moved = Moved(child, o, building);
    if (o.nominal_time < building.covered_to && !moved) continue;
    // An occurrence that was moved into the past was not missed: no plan reaches back that far.
    if (plan == nullptr || moved || plan->misfire.Fires(o.nominal_time)) {
      AddOccurrenceRows(child.source, o, options_.layout, building.now, building.group.mutations);
      ++counts.occurrences;
      counts.events += child.source.event_count;
      if (LaneFor(0, o.launch_time, building.now) == kLaneCatchUp) ++counts.late;
      continue;
    }
    ++counts.skipped;
    if (plan->InSummary(o.nominal_time)) {
      if (!building.first_summarised || o.nominal_time < building.first_summarised->nominal_time)
        building.first_summarised = o;
      ++building.summarised.occurrences;
      building.summarised.last = std::max(building.summarised.last, o.nominal_time);
    } else {
      building.group.mutations.push_back(
          SkippedOccurrence(child.source, o, kMisfire, options_.layout, building.now));
    }
  }
}

void EmissionChunk::BuildChild(DueChild& child, Building& building) const {
  // The version does not fire: the change of the schedule deletes the child of a cron expression.
  if (!building.fires && !child.instant && !child.expired) return;
  std::vector<Mutation>& mutations = building.group.mutations;
  if (building.fires && !child.expired) BuildOccurrences(child, building);
  const bool moves = building.fires && !child.moved_key.empty();
  if (child.instant || child.expired)
    mutations.push_back(kv::Delete(ColumnFamily::kChildren, child.entry.key));
  if (moves) {
    mutations.push_back(kv::Put(ColumnFamily::kChildren, child.moved_key, child.entry.value));
  }
  if ((child.instant || child.expired) && !moves) ++building.counts.removed;
  ++building.counts.children;
  building.group.conditions.push_back(kv::ValueIs(ColumnFamily::kChildren,
                                                  std::move(child.entry.key),
                                                  std::move(child.entry.value), child.seq));
}

void EmissionChunk::BuildSummary(const std::optional<std::string>& read, kv::CommitSeq seq,
                                 Building& building, std::vector<Condition>& fence) const {
  const DueSchedule& schedule = building.schedule;
  EmittedOccurrence first = *schedule.summary;
  std::optional<Counted> counted = CountedIn(read);
  // Only the emitter writes or deletes the record until the window has passed.
  const bool begun = first.nominal_time < options_.begin;
  if (!counted || (begun && !read)) {
    first = *building.first_summarised;
    counted = Counted();
  } else {
    fence.push_back(read ? kv::ValueIs(ColumnFamily::kDone, schedule.summary_key, *read, seq)
                         : kv::Absent(ColumnFamily::kDone, schedule.summary_key));
  }
  building.group.mutations.push_back(SkippedOccurrences(
      schedule.children[0].source, first, counted->occurrences + building.summarised.occurrences,
      std::max(counted->last, building.summarised.last), kMisfire, options_.layout, building.now));
}

EmissionChunk::Groups EmissionChunk::Build(kv::GetResult states) {
  Groups out;
  out.groups.reserve(schedules_.size());
  out.counts.reserve(schedules_.size());
  storage::v1::StateRecord state;
  for (size_t i = 0; i < schedules_.size(); ++i) {
    DueSchedule& schedule = schedules_[i];
    std::optional<std::string>& value = states.values[i];
    state.Clear();
    if (value && !state.ParseFromString(*value)) continue;
    const bool fires = value && Fires(schedule.children[0].source.version, state);
    Building building{.schedule = schedule,
                      .now = states.store_time,
                      .fires = fires,
                      .covered_to = FromMicros(state.covered_to_micros()),
                      .group = {},
                      .counts = {},
                      .summarised = {},
                      .first_summarised = std::nullopt};
    building.group.conditions.reserve(1 + schedule.children.size());
    building.group.mutations.reserve(schedule.children.size());
    building.group.conditions.push_back(
        StateAsRead(schedule.uid, std::move(value), state, states.seq));
    for (DueChild& child : schedule.children) BuildChild(child, building);
    if (building.counts.children == 0) continue;
    if (building.summarised.occurrences > 0)
      BuildSummary(states.values[schedule.summary_read], states.seq, building, out.fence);
    out.groups.push_back(std::move(building.group));
    out.counts.push_back(building.counts);
  }
  return out;
}

}  // namespace escapement::emitter
