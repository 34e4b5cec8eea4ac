#include "services/master/schedules/changes/backfill_decision.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using ConditionKind = kv::Condition::Kind;

uint16_t ShardOf(const OccurrenceSource& source, const std::string& occurrence,
                 const kv::Layout& layout) {
  const RunIdentity run(source.tenant, source.uid, occurrence);
  return ShardOfEventId(run.EventId(0), layout.queue_shards);
}

// The rest of a summary whose first occurrence fires.
struct Rest {
  size_t index = 0;  // the first occurrence's index
  storage::v1::DoneRecord record;
  uint64_t count = 0;
};

class Backfill {
 public:
  // `kept`: indices of occurrences that do not fire, for nobody could carry the rest of their
  // summary.
  Backfill(const ChangeInput& input, const BackfillScope& scope, const std::set<size_t>& kept)
      : input_(input), scope_(scope), kept_(kept) {
    group_.conditions.push_back({.cf = ColumnFamily::kStates,
                                 .key = StateKey(scope.source.uid),
                                 .kind = ConditionKind::kValueEquals,
                                 .value = input.snapshot.state_bytes});
  }

  // The index of an occurrence to be kept, or nullopt: it is complete.
  std::optional<size_t> Run() {
    size_t i = 0;
    for (; i < scope_.occurrences.size(); ++i) {
      const BackfillOccurrence& occurrence = scope_.occurrences[i];
      if (rest_.has_value() && InRest(occurrence)) --rest_->count;
      if (occurrence.present || kept_.contains(i)) {
        response_.set_present_count(response_.present_count() + occurrence.present);
        continue;
      }
      if (!Fire(i, occurrence)) break;
    }
    if (i < scope_.occurrences.size()) {
      SetTimestamp(ToMicros(scope_.occurrences[i].emitted.nominal_time),
                   *response_.mutable_next_start_time());
    } else if (scope_.beyond.has_value()) {
      SetTimestamp(ToMicros(*scope_.beyond), *response_.mutable_next_start_time());
    }
    if (!CarryRest(i)) return rest_->index;
    for (Rest& rest : former_) {
      if (!CarryFormer(rest)) return rest.index;
    }
    return std::nullopt;
  }

  Decision Take() {
    Decision decision;
    decision.group = std::move(group_);
    decision.occurrences = static_cast<size_t>(response_.fired_count());
    decision.response = std::make_unique<v1::BackfillScheduleResponse>(std::move(response_));
    return decision;
  }

 private:
  // False if there is no room for it.
  bool Fire(size_t index, const BackfillOccurrence& occurrence) {
    std::vector<kv::Mutation> rows;
    EmittedOccurrence emitted = occurrence.emitted;
    emitted.window_begin = input_.now;  // it is late by intention
    AddLaunchedRows(scope_.source, emitted, input_.layout, input_.now, rows);
    if (response_.fired_count() > 0 && group_.mutations.size() + rows.size() > kChangeRowsMax)
      return false;
    RequireUnfired(occurrence);
    for (const kv::Key& key : QueueKeys(scope_.source, occurrence, input_.layout))
      group_.conditions.push_back({.cf = key.cf, .key = key.key, .kind = ConditionKind::kAbsent});
    for (kv::Mutation& row : rows) {
      group_.conditions.push_back({.cf = row.cf, .key = row.key, .kind = ConditionKind::kAbsent});
      group_.mutations.push_back(std::move(row));
    }
    for (const auto& [key, value] : occurrence.done) {
      if (!value.has_value()) continue;
      group_.mutations.push_back(
          {.cf = ColumnFamily::kDone, .kind = kv::Mutation::Kind::kDelete, .key = key});
      Rest rest;
      if (rest.record.ParseFromString(*value) && rest.record.skipped_occurrences() > 1) {
        rest.index = index;
        rest.count = rest.record.skipped_occurrences() - 1;
        if (rest.record.version() == scope_.source.version) {
          rest_ = std::move(rest);
        } else {
          former_.push_back(std::move(rest));
        }
      }
    }
    fired_.insert(occurrence.emitted.id);
    response_.set_fired_count(response_.fired_count() + 1);
    return true;
  }

  bool InRest(const BackfillOccurrence& occurrence) const {
    return rest_->count > 0 &&
           ToMicros(occurrence.emitted.nominal_time) <= rest_->record.last_nominal_time_micros();
  }

  // Still as it was read, and without a run.
  void RequireUnfired(const BackfillOccurrence& occurrence) {
    group_.conditions.push_back({.cf = ColumnFamily::kRuns,
                                 .key = EncodeRunKey({scope_.source.uid, occurrence.emitted.id}),
                                 .kind = ConditionKind::kAbsent});
    for (const auto& [key, value] : occurrence.done)
      group_.conditions.push_back(kv::Unchanged(ColumnFamily::kDone, key, value));
  }

  // Gives the rest to the first occurrence from `next` on that can carry it; none of them was
  // visited yet.
  bool CarryRest(size_t next) {
    if (!rest_.has_value() || rest_->count == 0) return true;
    const size_t looked_at = scope_.occurrences.size();
    for (; next < looked_at + scope_.carriers.size(); ++next) {
      const BackfillOccurrence& carrier =
          next < looked_at ? scope_.occurrences[next] : scope_.carriers[next - looked_at];
      if (!InRest(carrier)) return true;
      if (CanCarry(carrier)) {
        Carry(*rest_, scope_.source, carrier);
        return true;
      }
      --rest_->count;
    }
    // Unless there were too many to look at, none is left that needs a record.
    return scope_.carriers.size() < kBackfillCarriersMax;
  }

  // The same for one of another version.
  bool CarryFormer(Rest& rest) {
    const auto former = scope_.former.find(scope_.occurrences[rest.index].emitted.id);
    if (former == scope_.former.end()) return false;
    const std::vector<BackfillOccurrence>& others = former->second.rest;
    for (const BackfillOccurrence& other : others) {
      if (rest.count == 0) return true;
      if (CanCarry(other) && !fired_.contains(other.emitted.id)) {
        Carry(rest, former->second.source, other);
        return true;
      }
      --rest.count;
    }
    return others.size() < kBackfillCarriersMax;
  }

  static bool CanCarry(const BackfillOccurrence& carrier) {
    return !carrier.present &&
           std::none_of(carrier.done.begin(), carrier.done.end(),
                        [](const auto& done) { return done.second.has_value(); });
  }

  void Carry(const Rest& rest, OccurrenceSource source, const BackfillOccurrence& carrier) {
    RequireUnfired(carrier);
    source.version = rest.record.version();
    source.event_count = rest.record.run_count();
    group_.mutations.push_back(SkippedOccurrences(
        source, carrier.emitted, rest.count, FromMicros(rest.record.last_nominal_time_micros()),
        rest.record.reason(), input_.layout, FromMicros(rest.record.complete_time_micros())));
  }

  const ChangeInput& input_;
  const BackfillScope& scope_;
  const std::set<size_t>& kept_;
  kv::Group group_;
  v1::BackfillScheduleResponse response_;
  std::set<std::string> fired_;  // ids
  std::optional<Rest> rest_;     // for the present version
  std::vector<Rest> former_;     // for other versions
};

}  // namespace

// Jitter, of any version, is at most a day.
std::map<std::string, std::optional<std::string>> DoneKeys(const OccurrenceSource& source,
                                                           const EmittedOccurrence& emitted,
                                                           const kv::Layout& layout) {
  std::map<std::string, std::optional<std::string>> keys;
  const uint16_t shard = ShardOf(source, emitted.id, layout);
  for (const absl::Duration later : {absl::ZeroDuration(), absl::Hours(24)}) {
    keys[EncodeDoneKey({.shard = shard,
                        .day = DoneDay(emitted.nominal_time + later),
                        .uid = source.uid,
                        .occurrence = emitted.id,
                        .first = 0})];
  }
  return keys;
}

BackfillScope ScopeOf(const ChangeInput& input, const BackfillRange& range) {
  const storage::v1::DefinitionRecord& record = input.snapshot.definition->record;
  BackfillScope scope;
  scope.source = SourceOf(record);
  scope.source.run_kept = true;
  cron::TimetableSpec spec = input.snapshot.definition->timetable.spec();
  spec.start = absl::InfinitePast();
  spec.end = record.timing().end_micros() != 0 ? FromMicros(record.timing().end_micros())
                                               : absl::InfiniteFuture();
  const cron::Timetable timetable(std::move(spec));
  const absl::Time covered = CoveredTo(input.snapshot, input.now);
  for (const cron::Occurrence& found :
       timetable.Enumerate(range.begin, covered, range.occurrences_max + kBackfillCarriersMax)) {
    const bool within =
        found.instant < range.end && scope.occurrences.size() < range.occurrences_max;
    if (!within && found.instant < range.end && !scope.beyond.has_value())
      scope.beyond = found.instant;
    BackfillOccurrence& occurrence = (within ? scope.occurrences : scope.carriers).emplace_back();
    occurrence.emitted = ToEmitted(scope.source, timetable, found);
    occurrence.emitted.triggered = true;
    occurrence.done = DoneKeys(scope.source, occurrence.emitted, input.layout);
  }
  return scope;
}

std::vector<kv::Key> QueueKeys(const OccurrenceSource& source, const BackfillOccurrence& occurrence,
                               const kv::Layout& layout) {
  const EmittedOccurrence& emitted = occurrence.emitted;
  std::vector<kv::Key> keys = {
      {ColumnFamily::kCheckpoints, EncodeLaunchKey({PartitionOf(source.uid, layout.partitions),
                                                    emitted.launch_time, source.uid, emitted.id})}};
  EventKey row{.shard = ShardOf(source, emitted.id, layout),
               .due_time = emitted.launch_time,
               .uid = source.uid,
               .occurrence = emitted.id};
  for (const uint8_t lane : {source.priority, kLaneCatchUp}) {
    row.lane = lane;
    const std::string key = EncodeEventKey(row);
    keys.push_back({ColumnFamily::kEvents, key});
    keys.push_back({ColumnFamily::kParked, ParkedKey(source.uid, key)});
  }
  if (!source.throttle.has_value()) return keys;
  storage::v1::EventRecord waiting;
  waiting.set_tenant(source.tenant);
  waiting.set_priority(source.priority);
  *waiting.mutable_throttle() = *source.throttle;
  const std::string key = EncodeWaitingKey(WaitingKeyOf(
      waiting, source.uid, emitted.id, /*first=*/0, emitted.launch_time, layout.policy_shards));
  keys.push_back({ColumnFamily::kWaiting, key});
  keys.push_back({ColumnFamily::kParked, ParkedKey(source.uid, key)});
  return keys;
}

absl::Status NoteOutcome(BackfillOccurrence& occurrence) {
  for (const auto& [key, value] : occurrence.done) {
    if (!value.has_value()) continue;
    storage::v1::DoneRecord done;
    if (!done.ParseFromString(*value)) return BrokenRecord("a Done record");
    const bool never_sent = done.outcome() == storage::v1::OUTCOME_KIND_SKIPPED &&
                            done.attempts() == 0 && done.run_count() <= 1;
    if (!done.run_skipped() && !never_sent) occurrence.present = true;
  }
  return absl::OkStatus();
}

std::optional<storage::v1::DoneRecord> FormerSummaryAt(const BackfillOccurrence& first,
                                                       uint64_t version) {
  for (const auto& [key, value] : first.done) {
    storage::v1::DoneRecord done;
    if (value.has_value() && done.ParseFromString(*value) && done.skipped_occurrences() > 1 &&
        done.version() != version)
      return done;
  }
  return std::nullopt;
}

FormerSummary RestOf(const storage::v1::DoneRecord& summary, const BackfillOccurrence& first,
                     const Definition& version, const kv::Layout& layout) {
  FormerSummary former;
  former.source = SourceOf(version.record);
  const absl::Time last = FromMicros(summary.last_nominal_time_micros());
  for (const cron::Occurrence& found :
       version.timetable.Enumerate(first.emitted.nominal_time + absl::Microseconds(1),
                                   last + absl::Microseconds(1), kBackfillCarriersMax)) {
    BackfillOccurrence& other = former.rest.emplace_back();
    other.emitted = ToEmitted(former.source, version.timetable, found);
    other.done = DoneKeys(former.source, other.emitted, layout);
  }
  return former;
}

absl::StatusOr<Decision> DecideBackfill(const ChangeInput& input, const BackfillScope& scope,
                                        const std::string& etag) {
  RETURN_IF_ERROR(CheckCurrent(input, etag));
  std::set<size_t> kept;
  while (true) {
    Backfill backfill(input, scope, kept);
    const std::optional<size_t> keep = backfill.Run();
    if (!keep.has_value()) return backfill.Take();
    kept.insert(*keep);
  }
}

}  // namespace escapement::master
