#include "services/emitter/testing/launch_world.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;

}  // namespace

LaunchWorld::LaunchWorld() { Advance(absl::Seconds(5)); }

void LaunchWorld::Begin() {
  StartEmitter("a");
  AdvanceWithRuns(start_ - Now(), absl::Hours(1));
}

Uid LaunchWorld::AddOverlapping(const std::string& cron, storage::v1::RunOverlapKind policy,
                                uint64_t event_count,
                                const std::function<void(storage::v1::DefinitionRecord&)>& adjust) {
  return AddSchedule(cron, "UTC", event_count, [&](storage::v1::DefinitionRecord& definition) {
    definition.set_run_overlap(policy);
    if (adjust) adjust(definition);
  });
}

storage::v1::StateRecord LaunchWorld::StoredState(const Uid& uid) const {
  storage::v1::StateRecord state;
  EXPECT_TRUE(state.ParseFromString(Disk(ColumnFamily::kStates).at(StateKey(uid))));
  return state;
}

void LaunchWorld::SetState(const Uid& uid, storage::v1::ScheduleStateKind kind) {
  storage::v1::StateRecord state = StoredState(uid);
  state.set_kind(kind);
  state.set_change_count(state.change_count() + 1);
  kv::Group group;
  group.mutations = {kv::Put(ColumnFamily::kStates, StateKey(uid), state.SerializeAsString())};
  Commit({group});
}

void LaunchWorld::Update(const Uid& uid,
                         const std::function<void(storage::v1::DefinitionRecord&)>& adjust) {
  if (adjust) adjust(schedules_[uid].definition);
  kv::Group group = UpdateGroup(uid);
  const storage::v1::DefinitionRecord& definition = schedules_[uid].definition;
  group.mutations.push_back(kv::Put(ColumnFamily::kDefinitions,
                                    DefinitionKey(uid, definition.version()),
                                    definition.SerializeAsString()));
  Commit({group});
}

void LaunchWorld::AddTriggeredRun(const Uid& uid, const std::string& occurrence) {
  const OccurrenceSource source = SourceOf(schedules_[uid].definition);
  kv::Group group;
  AddOccurrenceRows(
      source, {.id = occurrence, .nominal_time = Now(), .launch_time = Now(), .triggered = true},
      layout_, Now(), group.mutations);
  Commit({group});
}

void LaunchWorld::EndRun(const Uid& uid, const std::string& occurrence) {
  storage::v1::RunPartRecord part;
  part.set_succeeded(schedules_[uid].definition.event_count());
  kv::Group group;
  group.mutations = {
      kv::Put(ColumnFamily::kRunParts, RunPartKey({uid, occurrence}, 0), part.SerializeAsString())};
  for (const Row& row : Rows()) {
    if (row.key.uid != uid || row.key.occurrence != occurrence) continue;
    group.mutations.push_back({.cf = ColumnFamily::kEvents,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = EncodeEventKey(row.key)});
  }
  Commit({group});
}

void LaunchWorld::AdvanceWithRuns(absl::Duration duration, absl::Duration run_length) {
  const absl::Time end = Now() + duration;
  while (Now() < end) {
    Advance(std::min(absl::Milliseconds(20), end - Now()));
    std::map<std::string, absl::Time> active;
    std::vector<ActiveRun> over;
    for (const auto& [key, value] : Disk(ColumnFamily::kCheckpoints)) {
      const auto run = DecodeActiveRunKey(key);
      if (!run) continue;
      const auto known = active_since_.find(key);
      const absl::Time since = known == active_since_.end() ? Now() : known->second;
      active[key] = since;
      if (hung_.contains(run->occurrence) || Now() < since + run_length) continue;
      if (!Disk(ColumnFamily::kRunParts).contains(RunPartKey({run->uid, run->occurrence}, 0)))
        over.push_back(*run);
    }
    active_since_ = std::move(active);
    for (const ActiveRun& run : over) EndRun(run.uid, run.occurrence);
  }
}

std::string LaunchWorld::At(absl::Duration after_start) const {
  return cron::FormatCalendarOccurrence(
      absl::ToCivilSecond(start_ + after_start, absl::UTCTimeZone()), 0, "UTC");
}

std::set<std::string> LaunchWorld::Active(const Uid& uid) const {
  std::set<std::string> active;
  for (const auto& [key, value] : Disk(ColumnFamily::kCheckpoints)) {
    const auto run = DecodeActiveRunKey(key);
    if (run && run->uid == uid) active.insert(run->occurrence);
  }
  return active;
}

std::set<std::string> LaunchWorld::Waiting(const Uid& uid) const {
  std::set<std::string> waiting;
  for (const auto& [key, value] : Disk(ColumnFamily::kCheckpoints)) {
    const auto launch = DecodeLaunchKey(key);
    if (launch && launch->uid == uid) waiting.insert(launch->occurrence);
  }
  return waiting;
}

std::map<std::string, LaunchWorld::Launched> LaunchWorld::LaunchedRuns(const Uid& uid) const {
  std::map<std::string, Launched> launched;
  for (const auto& [bytes, times] : puts_) {
    const EventKey key = DecodeEventKey(bytes).value();
    if (key.uid != uid) continue;
    EXPECT_EQ(times.size(), 1u) << key.occurrence;
    launched.try_emplace(key.occurrence, Launched{.at = times[0], .lane = key.lane});
  }
  return launched;
}

std::map<std::string, std::string> LaunchWorld::Skipped(const Uid& uid) const {
  std::map<std::string, std::string> skipped;
  for (const auto& [bytes, value] : Disk(ColumnFamily::kDone)) {
    const DoneKey key = DecodeDoneKey(bytes).value();
    storage::v1::DoneRecord done;
    EXPECT_TRUE(done.ParseFromString(value));
    if (key.uid != uid) continue;
    EXPECT_TRUE(done.run_skipped());
    EXPECT_EQ(done.outcome(), storage::v1::OUTCOME_KIND_SKIPPED);
    skipped[key.occurrence] = done.reason();
  }
  return skipped;
}

}  // namespace escapement::emitter
