#include "services/emitter/testing/emitter_world.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/cron/evaluator.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;

sim::SimWorld::Options WorldAt(absl::Time start) {
  sim::SimWorld::Options options;
  options.start_time = start;
  return options;
}

bool AddsRows(const kv::CommitRequest& request) {
  for (const kv::Group& group : request.groups) {
    for (const kv::Mutation& mutation : group.mutations) {
      if (mutation.cf == ColumnFamily::kEvents || mutation.cf == ColumnFamily::kDone) return true;
    }
  }
  return false;
}

}  // namespace

void HookedKvStore::Commit(std::shared_ptr<const kv::CommitRequest> request,
                           Callback<kv::CommitResult> done) {
  if (before_answer && AddsRows(*request)) {
    done = [this, done = std::move(done)](absl::StatusOr<kv::CommitResult> result) {
      before_answer([done, result = std::move(result)] { done(result); });
    };
  }
  if (!before_rows || !AddsRows(*request))
    return inner_.Commit(std::move(request), std::move(done));
  before_rows([this, request = std::move(request), done = std::move(done)] {
    inner_.Commit(request, done);
  });
}

void HookedKvStore::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  const bool children = request.cf == ColumnFamily::kChildren && !request.keys_only;
  children_scans += children;
  inner_.Scan(std::move(request),
              [this, children, done = std::move(done)](absl::StatusOr<kv::ScanResult> result) {
                if (children && result.ok()) children_read += result->entries.size();
                done(std::move(result));
              });
}

EmitterWorld::EmitterWorld(absl::Time start)
    : world_(1, WorldAt(start)),
      store_process_(world_, "store"),
      client_process_(world_, "client") {
  kv::MemKvStore::Options options;
  options.layout = layout_;
  options.on_durable = [this](const kv::CommitRecord& record) {
    for (size_t g = 0; g < record.request->groups.size(); ++g) {
      if (!record.verdicts[g].applied) continue;
      for (const kv::Mutation& mutation : record.request->groups[g].mutations) {
        if (mutation.cf == ColumnFamily::kEvents && mutation.kind == kv::Mutation::Kind::kPut) {
          puts_[mutation.key].push_back(world_.Now());
        }
      }
    }
    if (on_durable_) on_durable_(*record.request);
  };
  store_ = std::make_unique<kv::MemKvStore>(store_process_, options);
  hooked_ = std::make_unique<HookedKvStore>(*store_);
  executor_ = client_process_.NewExecutor("test");
  kv::KvClient::Options client;
  client.name = "test";
  client_ = std::make_unique<kv::KvClient>(*store_, client_process_, std::move(client));
}

EmitterWorld::~EmitterWorld() {
  while (!emitters_.empty()) KillEmitter(emitters_.begin()->first);
  executor_->Stop();
}

void EmitterWorld::StartEmitter(const std::string& name) {
  Emitter& emitter = emitters_[name];
  sim::SimProcess::Options process;
  process.incarnation = ++starts_;
  if (own_machines_) process.boot_id = name;
  emitter.process = std::make_unique<sim::SimProcess>(world_, name, process);
  EmitterOptions options = service_options_;
  options.instance = absl::StrCat(name, "-", starts_);
  emitter.service = std::make_unique<EmitterService>(options, *hooked_, *emitter.process);
  emitter.service->Start();
}

void EmitterWorld::KillEmitter(const std::string& name) {
  emitters_[name].process->Kill();
  emitters_.erase(name);
}

void EmitterWorld::DrainEmitter(const std::string& name) {
  bool drained = false;
  emitters_[name].service->Drain([&] { drained = true; });
  ASSERT_TRUE(world_.RunUntil([&] { return drained; }, absl::Seconds(10)));
  KillEmitter(name);
}

void EmitterWorld::Commit(std::vector<kv::Group> groups) {
  bool done = false;
  kv::Commit commit;
  commit.groups = std::move(groups);
  client_->CommitAsync(std::move(commit), executor_, [&](absl::StatusOr<kv::CommitResult> result) {
    ASSERT_TRUE(result.ok()) << result.status();
    for (const kv::Verdict& verdict : result->verdicts)
      ASSERT_TRUE(verdict.applied) << verdict.failed_condition;
    done = true;
  });
  ASSERT_TRUE(world_.RunUntil([&] { return done; }, absl::Seconds(10)));
}

Uid EmitterWorld::AddSchedule(const std::string& cron, const std::string& zone,
                              uint64_t event_count,
                              const std::function<void(storage::v1::DefinitionRecord&)>& adjust) {
  const Uid uid = StableHash128(absl::StrCat("schedule ", ++uids_));
  Schedule& schedule = schedules_[uid];
  storage::v1::DefinitionRecord& definition = schedule.definition;
  definition.set_tenant("default");
  definition.set_schedule_id(absl::StrCat("s", uids_));
  definition.set_uid(std::string(uid.bytes()));
  definition.set_version(1);
  definition.set_cron(cron);
  definition.set_time_zone(zone);
  definition.set_event_count(event_count);
  definition.set_priority(5);
  if (adjust) adjust(definition);
  schedule.state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  schedule.state.set_version(1);
  schedule.state.set_change_count(1);
  schedule.from = Now();
  const cron::Timetable timetable = TimetableOf(definition).value();
  kv::Group group;
  group.mutations.push_back(
      kv::Put(ColumnFamily::kStates, StateKey(uid), schedule.state.SerializeAsString()));
  group.mutations.push_back(
      kv::Put(ColumnFamily::kDefinitions, DefinitionKey(uid, 1), definition.SerializeAsString()));
  const std::string planned_key = PlannedToKey(PartitionOf(uid, layout_.partitions));
  absl::Time from = Now();
  if (const auto it = Disk(ColumnFamily::kCheckpoints).find(planned_key);
      it != Disk(ColumnFamily::kCheckpoints).end()) {
    kv::Condition planned;
    planned.cf = ColumnFamily::kCheckpoints;
    planned.key = planned_key;
    planned.kind = kv::Condition::Kind::kValueEquals;
    planned.value = it->second;
    group.conditions.push_back(planned);
    from = std::max(from, DecodeCheckpoint(it->second));
  } else {
    const uint16_t partition = PartitionOf(uid, layout_.partitions);
    for (const std::string& key : {planned_key, EmittedToKey(partition)})
      group.mutations.push_back(kv::Put(ColumnFamily::kCheckpoints, key, EncodeCheckpoint(Now())));
  }
  for (const cron::Occurrence& o : timetable.Enumerate(Now(), from, 1000)) {
    const OccurrenceSource source = SourceOf(definition);
    AddOccurrenceRows(source, ToEmitted(source, timetable, o), layout_, Now(), group.mutations);
  }
  AddChildren(definition, timetable, from, layout_, group.mutations);
  Commit({group});
  return uid;
}

Uid EmitterWorld::AddInterval(absl::Duration every, absl::Time anchor,
                              const std::function<void(storage::v1::DefinitionRecord&)>& adjust) {
  return AddSchedule("", "UTC", 1, [&](storage::v1::DefinitionRecord& definition) {
    auto* interval = definition.mutable_timing()->mutable_interval();
    interval->set_every_micros(absl::ToInt64Microseconds(every));
    interval->set_anchor_micros(ToMicros(anchor));
    if (adjust) adjust(definition);
  });
}

Uid EmitterWorld::AddList(const std::vector<absl::Time>& times,
                          const std::function<void(storage::v1::DefinitionRecord&)>& adjust) {
  return AddSchedule("", "UTC", 1, [&](storage::v1::DefinitionRecord& definition) {
    for (const absl::Time time : times)
      definition.mutable_timing()->add_times_micros(ToMicros(time));
    if (adjust) adjust(definition);
  });
}

std::function<void(storage::v1::DefinitionRecord&)> EmitterWorld::Misfire(
    storage::v1::MisfireKind action, uint32_t max_catch_up, absl::Duration threshold) {
  return [=](storage::v1::DefinitionRecord& definition) {
    definition.mutable_misfire()->set_action(action);
    definition.mutable_misfire()->set_max_catch_up(max_catch_up);
    definition.mutable_misfire()->set_threshold_micros(absl::ToInt64Microseconds(threshold));
  };
}

size_t EmitterWorld::ChildrenOf(const Uid& uid) const {
  size_t count = 0;
  for (const auto& [key, value] : Disk(ColumnFamily::kChildren)) {
    if (const auto instant = DecodeInstantChildKey(key)) count += instant->uid == uid;
    if (const auto child = DecodeChildKey(key)) count += child->uid == uid;
  }
  return count;
}

kv::Group EmitterWorld::UpdateGroup(const Uid& uid) {
  Schedule& schedule = schedules_[uid];
  schedule.definition.set_version(schedule.definition.version() + 1);
  schedule.state.set_version(schedule.definition.version());
  schedule.state.set_change_count(schedule.state.change_count() + 1);
  const cron::Timetable timetable = TimetableOf(schedule.definition).value();
  const absl::Time planned = Checkpoint(PlannedToKey(PartitionOf(uid, layout_.partitions)));
  kv::Group group;
  group.mutations.push_back(
      kv::Put(ColumnFamily::kStates, StateKey(uid), schedule.state.SerializeAsString()));
  AddChildren(schedule.definition, timetable, planned, layout_, group.mutations);
  return group;
}

bool EmitterWorld::TryUpdate(const Uid& uid) {
  const uint16_t partition = PartitionOf(uid, layout_.partitions);
  Schedule& schedule = schedules_[uid];
  kv::Group group;
  for (const std::string& key :
       {PlannedToKey(partition), EmittedToKey(partition), CursorKey(partition)}) {
    const auto it = Disk(ColumnFamily::kCheckpoints).find(key);
    const bool there = it != Disk(ColumnFamily::kCheckpoints).end();
    group.conditions.push_back(
        {.cf = ColumnFamily::kCheckpoints,
         .key = key,
         .kind = there ? kv::Condition::Kind::kValueEquals : kv::Condition::Kind::kAbsent,
         .value = there ? it->second : ""});
  }
  if (group.conditions[2].kind != kv::Condition::Kind::kAbsent) return false;
  group.conditions.push_back({.cf = ColumnFamily::kStates,
                              .key = StateKey(uid),
                              .kind = kv::Condition::Kind::kValueEquals,
                              .value = schedule.state.SerializeAsString()});
  const absl::Time planned = Checkpoint(PlannedToKey(partition));
  const absl::Time covered =
      std::max(Checkpoint(EmittedToKey(partition)), FromMicros(schedule.state.covered_to_micros()));
  const absl::Time from = std::max({Now(), covered, planned});
  const cron::Timetable timetable = TimetableOf(schedule.definition).value();
  RemoveChildren(timetable, uid, covered, layout_, group.mutations);
  const OccurrenceSource former = SourceOf(schedule.definition);
  storage::v1::DefinitionRecord definition = schedule.definition;
  definition.set_version(definition.version() + 1);
  storage::v1::StateRecord state = schedule.state;
  state.set_version(definition.version());
  state.set_change_count(state.change_count() + 1);
  state.set_covered_to_micros(ToMicros(from));
  for (const cron::Occurrence& o : timetable.Enumerate(covered, from, 10'000)) {
    const OccurrenceSource source = o.instant < Now() ? former : SourceOf(definition);
    AddOccurrenceRows(source, ToEmitted(source, timetable, o), layout_, Now(), group.mutations);
  }
  AddChildren(definition, timetable, from, layout_, group.mutations);
  group.mutations.push_back(
      kv::Put(ColumnFamily::kStates, StateKey(uid), state.SerializeAsString()));
  group.mutations.push_back(kv::Put(ColumnFamily::kDefinitions, DefinitionKey(uid, state.version()),
                                    definition.SerializeAsString()));
  std::optional<bool> applied;
  kv::Commit commit;
  commit.groups = {std::move(group)};
  client_->CommitAsync(std::move(commit), executor_, [&](absl::StatusOr<kv::CommitResult> result) {
    applied = result.ok() && result->verdicts[0].applied;
  });
  EXPECT_TRUE(world_.RunUntil([&] { return applied.has_value(); }, absl::Seconds(10)));
  if (!applied.value_or(false)) return false;
  schedule.definition = std::move(definition);
  schedule.state = std::move(state);
  return true;
}

absl::Time EmitterWorld::Checkpoint(const std::string& key) const {
  const auto& checkpoints = Disk(ColumnFamily::kCheckpoints);
  const auto it = checkpoints.find(key);
  return it == checkpoints.end() ? absl::InfinitePast() : DecodeCheckpoint(it->second);
}

const kv::MemDisk::Family& EmitterWorld::Disk(ColumnFamily cf) const {
  return store_->disk()->families[static_cast<size_t>(cf)];
}

std::vector<EmitterWorld::Row> EmitterWorld::Rows() const {
  std::vector<Row> rows;
  for (const auto& [key, value] : Disk(ColumnFamily::kEvents)) {
    Row& row = rows.emplace_back();
    row.key = DecodeEventKey(key).value();
    EXPECT_TRUE(row.record.ParseFromString(value));
  }
  return rows;
}

void EmitterWorld::ExpectEmittedOnce(absl::Time from, absl::Time to) {
  std::map<std::pair<Uid, std::string>, uint64_t> events;
  std::map<std::pair<Uid, std::string>, absl::Time> due;
  for (const auto& [bytes, times] : puts_) {
    const EventKey key = DecodeEventKey(bytes).value();
    EXPECT_EQ(times.size(), 1u) << key.occurrence << " was put " << times.size() << " times";
    due[{key.uid, key.occurrence}] = key.due_time;
  }
  for (const Row& row : Rows()) events[{row.key.uid, row.key.occurrence}] += row.record.count();
  std::set<std::pair<Uid, std::string>> expected;
  for (const auto& [uid, schedule] : schedules_) {
    const cron::Timetable timetable = TimetableOf(schedule.definition).value();
    for (const cron::Occurrence& o : timetable.Enumerate(std::max(from, schedule.from), to,
                                                         std::numeric_limits<size_t>::max())) {
      const std::pair<Uid, std::string> id = {uid, timetable.IdOf(o)};
      expected.insert(id);
      EXPECT_TRUE(due.contains(id)) << "lost: " << schedule.definition.cron() << " " << id.second;
      EXPECT_EQ(due[id], o.instant) << id.second;
      EXPECT_EQ(events[id], schedule.definition.event_count()) << id.second;
    }
  }
  for (const auto& [id, time] : due) {
    EXPECT_TRUE(time >= to || expected.contains(id)) << "not expected: " << id.second;
  }
}

std::map<Uid, EmitterWorld::Skipped> EmitterWorld::AllSkips() const {
  std::map<Uid, Skipped> skips;
  for (const auto& [bytes, value] : Disk(ColumnFamily::kDone)) {
    const DoneKey key = DecodeDoneKey(bytes).value();
    storage::v1::DoneRecord& done = skips[key.uid][key.occurrence];
    EXPECT_TRUE(done.ParseFromString(value));
    EXPECT_TRUE(done.run_skipped());
    EXPECT_EQ(done.outcome(), storage::v1::OUTCOME_KIND_SKIPPED);
    EXPECT_EQ(done.reason(), "misfire");
  }
  return skips;
}

std::map<Uid, EmitterWorld::FiredAt> EmitterWorld::AllFired() const {
  std::map<Uid, FiredAt> fired;
  for (const auto& [bytes, times] : puts_) {
    const EventKey key = DecodeEventKey(bytes).value();
    EXPECT_EQ(times.size(), 1u) << key.occurrence << " was put " << times.size() << " times";
    fired[key.uid][key.occurrence] = times[0];
  }
  return fired;
}

EmitterWorld::Account EmitterWorld::ExpectAccounted(const Uid& uid, absl::Time from,
                                                    absl::Time to) {
  return ExpectAccounted(schedules_.at(uid), Fired(uid), Skips(uid), from, to);
}

EmitterWorld::Account EmitterWorld::ExpectAccounted(const Schedule& schedule, const FiredAt& fired,
                                                    const Skipped& skips, absl::Time from,
                                                    absl::Time to) {
  const cron::Timetable timetable = TimetableOf(schedule.definition).value();
  Account account;
  std::vector<absl::Time> rest;  // must be in summaries
  size_t fired_later = 0;
  for (const cron::Occurrence& o :
       timetable.Enumerate(std::max(from, schedule.from), to, std::numeric_limits<size_t>::max())) {
    const std::string id = timetable.IdOf(o);
    const auto skip = skips.find(id);
    const bool single = skip != skips.end() && skip->second.skipped_occurrences() == 0;
    EXPECT_FALSE(fired.contains(id) && skip != skips.end()) << "fired and skipped: " << id;
    if (fired.contains(id)) {
      ++account.fired;
    } else if (single) {
      ++account.skipped;
      EXPECT_EQ(FromMicros(skip->second.nominal_time_micros()), o.instant);
    } else {
      rest.push_back(o.instant);
    }
  }
  for (const cron::Occurrence& o : timetable.Enumerate(to, to + absl::Minutes(2), 1000))
    fired_later += fired.contains(timetable.IdOf(o));
  EXPECT_EQ(fired.size(), account.fired + fired_later) << "what is no occurrence has fired";
  for (const auto& [id, done] : skips) {
    if (done.skipped_occurrences() == 0) continue;
    ++account.summaries;
    account.summarised += done.skipped_occurrences();
    const absl::Time last = FromMicros(done.last_nominal_time_micros());
    EXPECT_EQ(done.skipped_occurrences(),
              std::count_if(rest.begin(), rest.end(),
                            [&](absl::Time t) {
                              return t >= FromMicros(done.nominal_time_micros()) && t <= last;
                            }))
        << id;
    EXPECT_NE(std::find(rest.begin(), rest.end(), last), rest.end()) << id;
  }
  EXPECT_EQ(account.summarised, rest.size()) << "lost: " << schedule.definition.ShortDebugString();
  return account;
}

EmitterWorld::Account EmitterWorld::ExpectAccounted(absl::Time from, absl::Time to) {
  Account total;
  auto fired = AllFired();
  auto skips = AllSkips();
  for (const auto& [uid, schedule] : schedules_) {
    const Account account = ExpectAccounted(schedule, fired[uid], skips[uid], from, to);
    total.fired += account.fired;
    total.skipped += account.skipped;
    total.summarised += account.summarised;
    total.summaries += account.summaries;
  }
  return total;
}

}  // namespace escapement::emitter
